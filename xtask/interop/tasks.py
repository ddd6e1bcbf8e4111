"""The tasks extension of 2026-07-28, on what the Python SDK 2.x offers for extensions: it has no tasks of its own."""

from typing import Any, Literal

import anyio
from mcp.client.context import ClientRequestContext
from mcp.client.extension import ClientExtension, ResultClaim
from mcp_types import CallToolResult, ElicitRequest, EmptyResult, Request, RequestParams, Result

POLL_SECONDS = 0.1


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


class TaskState(Result):
    task_id: str
    status: str


class TaskCreated(TaskState):
    result_type: Literal["task"]


class TaskDetails(TaskState):
    input_requests: dict[str, ElicitRequest] = {}
    result: CallToolResult | None = None


class TasksExtension(ClientExtension):
    """Follows a task to its end, whatever its client is."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.follower = None

    def claims(self):
        return [ResultClaim(result_type="task", model=TaskCreated, resolve=self.resolve)]

    async def resolve(self, created, context):
        return await self.follower.follow(created, context.session)


TASKS = TasksExtension()


class Tasks:
    """Runs one tool after the other as a task, and keeps the id and the states of the last."""

    def __init__(self, client):
        self._client = client
        TASKS.follower = self

    async def run(self, name, arguments, cancel=False):
        self.task_id, self.statuses, self._cancel = None, [], cancel
        return await self._client.call_tool(name, arguments)

    async def follow(self, task, session):
        async def send(method, result_type, **params):
            request = TaskRequest(method=method, params=TaskParams(task_id=task.task_id, **params))
            return await session.send_request(request, result_type)

        self.task_id, answered = task.task_id, set()
        self.statuses.append(task.status)
        while True:
            task = await send("tasks/get", TaskDetails)
            self.statuses.append(task.status)
            if task.status == "completed":
                return task.result
            if task.status in ("failed", "cancelled"):
                return CallToolResult(content=[], is_error=True)
            if self._cancel:
                self._cancel = False
                await send("tasks/cancel", EmptyResult)
            responses = {}
            for key, request in task.input_requests.items():
                if key not in answered:
                    answered.add(key)
                    context = ClientRequestContext(session=session, request_id=key)
                    answer = await session.dispatch_input_request(context, request)
                    responses[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
            if responses:
                await send("tasks/update", EmptyResult, input_responses=responses)
            await anyio.sleep(POLL_SECONDS)
