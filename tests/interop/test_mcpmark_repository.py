"""Postgres tasks of MCPMark's own repository: the right work is worth 1 and none 0.

Their databases are small ones of the same layout with rows of our own, since the repository does not hold the backups.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.envs.mcpmark import MCPMarkPostgresEnv
from agentgym.messages import ToolCall
from agentgym.script import steps
from tests.postgres_tasks import need_postgres, write_backup

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.skipif(
        "AGENTGYM_TEST_MCPMARK" not in os.environ,
        reason="AGENTGYM_TEST_MCPMARK names no clone of MCPMark's repository",
    ),
]
need_postgres()

DVDRENTAL = "CREATE TABLE payment (payment_id int PRIMARY KEY, customer_id int, amount numeric(5, 2))"
EMPLOYEES = """
CREATE SCHEMA employees;
CREATE TYPE employees.employee_gender AS ENUM ('M', 'F');
CREATE TABLE employees.employee (id bigint PRIMARY KEY, gender employees.employee_gender, hire_date date);
CREATE TABLE employees.salary (employee_id bigint REFERENCES employees.employee, amount bigint, to_date date);
INSERT INTO employees.employee SELECT n, CASE WHEN n % 3 = 0 THEN 'F' ELSE 'M' END::employees.employee_gender,
    date '1985-01-01' + 40 * n FROM generate_series(1, 90) AS n;
INSERT INTO employees.salary SELECT n, 1000 * n, CASE WHEN n % 4 = 0 THEN date '2000-01-01' ELSE '9999-01-01' END
    FROM generate_series(1, 90) AS n;
"""
LEGO = """
CREATE TABLE lego_colors (id serial PRIMARY KEY, name text);
CREATE TABLE lego_themes (id serial PRIMARY KEY, name text);
CREATE TABLE lego_part_categories (id serial PRIMARY KEY, name text);
CREATE TABLE lego_parts (part_num text PRIMARY KEY, name text);
CREATE TABLE lego_sets (set_num text PRIMARY KEY, theme_id int, num_parts int);
CREATE TABLE lego_inventories (id serial PRIMARY KEY, version int, set_num text);
CREATE TABLE lego_inventory_parts (inventory_id int, part_num text, color_id int, quantity int, is_spare boolean);
INSERT INTO lego_themes (name) SELECT 'theme ' || n FROM generate_series(1, 20) AS n;
INSERT INTO lego_sets VALUES ('65081-1', 18, 3), ('K8008-1', 18, 9), ('a-1', 1, 9), ('b-1', 1, 9);
INSERT INTO lego_inventories (version, set_num) SELECT 1, set_num FROM lego_sets ORDER BY set_num;
INSERT INTO lego_inventory_parts SELECT id, 'p', 1, 3, false FROM lego_inventories;
"""
SPORTS = """
CREATE TABLE participants_events (id int, participant_id int, event_id int);
CREATE TABLE stats (id int, stat_holder_type text, stat_holder_id int);
"""
DATABASES = {"dvdrental": DVDRENTAL, "employees": EMPLOYEES, "lego": LEGO, "sports": SPORTS}

_NOW = "SELECT DISTINCT employee_id FROM employees.salary WHERE to_date = '9999-01-01'"
_TABLES = (
    "lego_themes, lego_colors, lego_parts, lego_part_categories, lego_sets, lego_inventories, lego_inventory_parts"
)
_SECURED = "".join(
    f"ALTER TABLE lego_{name} ENABLE ROW LEVEL SECURITY;" for name in ("sets", "inventories", "inventory_parts")
)
ROLE = f"CREATE ROLE theme_analyst; GRANT SELECT ON {_TABLES} TO theme_analyst; {_SECURED}"
_OWN = "SELECT set_num FROM lego_sets WHERE theme_id = get_user_theme_id()"
SOLUTIONS = {
    "easy/dvdrental/create_payment_index": "CREATE INDEX ON payment (customer_id)",
    "easy/employees/employee_gender_statistics": f"""
        CREATE TABLE employees.gender_statistics AS SELECT gender::varchar, count(*) AS total_employees,
        count(employee_id) AS current_employees,
        100.0 * count(employee_id) / (SELECT count(*) FROM ({_NOW}) AS n) AS percentage_of_workforce
        FROM employees.employee LEFT JOIN ({_NOW}) AS now ON employee_id = id GROUP BY gender
    """,
    "easy/lego/basic_security_setup": ROLE,
    "easy/lego/fix_data_inconsistencies": "UPDATE lego_sets SET num_parts = 3",
    "easy/sports/create_performance_indexes": """
        CREATE INDEX ON participants_events (participant_id);
        CREATE INDEX ON stats (stat_holder_type, stat_holder_id)
    """,
    "standard/lego/database_security_policies": f"""
        {ROLE}
        CREATE FUNCTION get_user_theme_id() RETURNS int LANGUAGE sql STABLE
            AS $$ SELECT CASE current_user WHEN 'theme_analyst' THEN 18 END $$;
        CREATE POLICY theme_sets_policy ON lego_sets USING (theme_id = get_user_theme_id());
        CREATE POLICY theme_inventories_policy ON lego_inventories USING (set_num IN ({_OWN}));
        CREATE POLICY theme_inventory_parts_policy ON lego_inventory_parts USING (inventory_id IN
            (SELECT id FROM lego_inventories WHERE set_num IN ({_OWN})))
    """,
    "standard/security/rls_business_access": None,
    "standard/security/user_permission_audit": None,
}
"""What solves a task; `None` if that is the task's own `ground_truth.sql`."""


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MCPMarkPostgresEnv]:
    backups = tmp_path_factory.mktemp("backups")
    for name, sql in DATABASES.items():
        write_backup(backups / f"{name}.backup", sql)
    folder = Path(os.environ["AGENTGYM_TEST_MCPMARK"]) / "tasks/postgres"
    made = MCPMarkPostgresEnv(folder=folder, backups=backups, split_by="test")
    yield made
    made.close()


@pytest.mark.parametrize("name", SOLUTIONS)
def test_the_right_work_is_worth_1_and_none_0(env: MCPMarkPostgresEnv, name: str):
    task, sql = env.tasks.find(f"mcpmark/{name}"), SOLUTIONS[name]
    env.reset(options={"task": task})
    assert list(steps(env, iter(["Done."])))[-1].reward == 0.0
    env.reset(options={"task": task})
    solution = env.solution(task) if sql is None else iter([ToolCall("execute_sql", {"sql": sql}), "Done."])
    assert list(steps(env, solution))[-1].reward == 1.0
