"""Placeholder until the dialects land."""
from __future__ import annotations
import json, re
from agentgym.dialects.base import Parsed
from agentgym.messages import ToolCall
class Hermes:
    name="hermes"
    def instructions(self, tools): return "Call tools like <tool_call>{\"name\":...,\"arguments\":{...}}</tool_call>. Tools: "+json.dumps(tools.schemas)
    def parse(self, text, tools):
        m=re.search(r"<tool_call>(.*?)</tool_call>", text, re.S)
        if not m: return Parsed(text)
        try: d=json.loads(m[1]); return Parsed(text[:m.start()].strip(), (ToolCall(d["name"], d["arguments"]),))
        except Exception as e: return Parsed(error=str(e))
    def render(self, text, calls, tools): return text+"".join("<tool_call>\n"+json.dumps({"name":c.name,"arguments":dict(c.arguments)})+"\n</tool_call>" for c in calls)
    def result(self, call, content): return {"role":"tool","tool_call_id":call.id,"name":call.name,"content":content}
    def problem(self, content): return {"role":"user","content":"Error: "+content}
