"""Asks an MCP server what standard input says, one JSON object a line, and prints what it answers, one line each.

    client.py MODE stdio COMMAND ARGUMENT...
    client.py MODE http URL TOKEN

MODE is `auto` for the newest protocol that both sides know, `legacy` for the one with a handshake.
"""

import asyncio
import json
import sys

import mcp
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def ask(client, question):
    match question["ask"]:
        case "server":
            return {"name": client.server_info.name, "instructions": client.instructions}
        case "tools":
            return (await client.list_tools()).model_dump(mode="json", by_alias=True)
        case "call":
            answer = await client.call_tool(question["tool"], question["arguments"])
            return {"is_error": bool(answer.is_error), "text": answer.content[0].text}
        case "resources":
            return (await client.list_resources(cursor=question.get("cursor"))).model_dump(mode="json", by_alias=True)
        case "templates":
            return (await client.list_resource_templates()).model_dump(mode="json", by_alias=True)
        case "read":
            answer = await client.read_resource(question["uri"])
            return {"mime": answer.contents[0].mime_type, "text": answer.contents[0].text}


async def converse(server, mode):
    async with mcp.Client(server, mode=mode) as client:
        for line in sys.stdin:
            try:
                answer = {"ok": await ask(client, json.loads(line))}
            except mcp.MCPError as error:
                answer = {"error": error.error.message}
            print(json.dumps(answer), flush=True)


async def main():
    mode, kind, *rest = sys.argv[1:]
    if kind == "stdio":
        await converse(mcp.StdioServerParameters(command=rest[0], args=rest[1:]), mode)
    else:
        url, token = rest
        async with create_mcp_http_client(headers={"authorization": f"Bearer {token}"}) as http:
            await converse(streamable_http_client(url, http_client=http), mode)


asyncio.run(main())
