"""The addresses of files: where they are uploaded and read."""

from __future__ import annotations

import secrets

from aiohttp import web

from signoff_demo.sandbox.workspace import SandboxWorkspace


class Uploads:
    """Serves the URLs of files.getUploadURLExternal and `url_private`."""

    def __init__(self, workspace: SandboxWorkspace, bot_token: str) -> None:
        self.base = ""
        self._workspace = workspace
        self._bot_token = bot_token
        self._addresses: dict[str, str] = {}

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/upload/v1/{key}", self._receive)
        app.router.add_get("/files-pri/{file_id}/{name}", self._read)

    def address(self, file_id: str) -> str:
        """The URL is for a single use."""
        key = secrets.token_urlsafe(24)
        self._addresses[key] = file_id
        return f"{self.base}/upload/v1/{key}"

    async def _receive(self, request: web.Request) -> web.Response:
        file_id = self._addresses.pop(request.match_info["key"], None)
        if file_id is None:
            return web.Response(status=404, text="not found")
        content = await self._content(request)
        file = self._workspace.files[file_id]
        if len(content) != file["size"]:
            return web.Response(status=400, text=f"expected {file['size']} bytes, received {len(content)}")
        file |= {"content": content, "url_private": f"{self.base}/files-pri/{file_id}/{file['name']}"}
        return web.Response(text=f"OK - {len(content)}")

    @staticmethod
    async def _content(request: web.Request) -> bytes:
        if request.content_type != "multipart/form-data":
            return await request.read()
        form = await request.post()
        for part in form.values():
            if isinstance(part, web.FileField):
                return part.file.read()
        return b""

    async def _read(self, request: web.Request) -> web.Response:
        file = self._workspace.files.get(request.match_info["file_id"])
        if request.headers.get("Authorization") != f"Bearer {self._bot_token}":
            return web.Response(status=403)
        if file is None or not file["completed"]:
            return web.Response(status=404)
        return web.Response(body=file["content"], content_type="text/plain")
