"""Serves environments to other processes: sessions that play episodes over a WebSocket or plain HTTP."""
