"""The conversation: asks the model, remembers, tells what it said and used."""

from __future__ import annotations

import sys
import time

from pydantic_ai import exceptions as raised
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from corral.boxed.loop.event_lines import UsageTotal, clean, tell
from corral.boxed.loop.memory import StoredMessages
from corral.boxed.loop.settings import LoopSettings
from corral.model import Tokens
from corral.model.events import Said

TRIES = 3  #: of a request whose answer breaks off; what fails before that, the provider's client tries again itself
SIGN_OF_LIFE_SECONDS = 60.0


class ModelConversation:
    """One session with one model."""

    def __init__(self, model: Model, memory: StoredMessages, settings: LoopSettings) -> None:
        self._model, self._settings = model, settings
        self.memory = memory
        self._usage = UsageTotal(free=settings.provider == "ollama")

    async def ask(self, tools: list[ToolDefinition]) -> ModelResponse:
        """Have the model answer what was said so far."""
        response = await self._ask_with_retries(ModelRequestParameters(function_tools=tools))
        self._usage.add(_tokens(response.usage))
        self.memory.add(response)
        text = clean(response.text or "")
        if text.strip():
            tell(Said(text))
        return response

    async def _ask_with_retries(self, parameters: ModelRequestParameters) -> ModelResponse:
        for left in reversed(range(TRIES)):
            try:
                return await self._stream_answer(parameters)
            except raised.ModelConnectionError:
                if not left:
                    raise
        raise AssertionError

    async def _stream_answer(self, parameters: ModelRequestParameters) -> ModelResponse:
        settings = _model_settings(self._settings)
        last = time.monotonic()
        async with model_request_stream(
            self._model, self.memory.messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for _ in stream:
                if time.monotonic() - last > SIGN_OF_LIFE_SECONDS:  # a slow model is not a silent one
                    last = time.monotonic()
                    sys.stderr.write("the model is answering\n")
                    sys.stderr.flush()
            return stream.get()


def _model_settings(settings: LoopSettings) -> ModelSettings:
    chosen = ModelSettings()
    if settings.most_tokens:
        chosen["max_tokens"] = settings.most_tokens
    if settings.provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModelSettings  # noqa: PLC0415 -- each provider's client is slow to load

        return AnthropicModelSettings(**chosen, anthropic_cache=True)
    return chosen


def _tokens(usage: RequestUsage) -> Tokens:
    """Count as corral does: what came from a cache apart from the input."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    return Tokens(max(usage.input_tokens - read - written, 0), usage.output_tokens, read, written)
