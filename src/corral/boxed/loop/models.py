"""The model of a provider, behind one interface; only the client that is needed is loaded."""

# ruff: noqa: PLC0415

from __future__ import annotations

from pydantic_ai.models import Model

from corral.boxed.loop.settings import LoopSettings


def model(settings: LoopSettings) -> Model:
    match settings.provider:
        case "ollama":
            return _ollama(settings)
        case "openai":
            return _openai(settings)
        case "anthropic":
            return _anthropic(settings)
        case "google":
            return _google(settings)


def _ollama(settings: LoopSettings) -> Model:
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.providers.ollama import OllamaProvider

    return OllamaModel(settings.model, provider=OllamaProvider(base_url=settings.base_url, api_key=settings.key))


def _openai(settings: LoopSettings) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=settings.base_url, api_key=settings.key)
    kind = OpenAIResponsesModel if settings.responses else OpenAIChatModel
    return kind(settings.model, provider=provider)


def _anthropic(settings: LoopSettings) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    return AnthropicModel(settings.model, provider=AnthropicProvider(base_url=settings.base_url, api_key=settings.key))


def _google(settings: LoopSettings) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(settings.model, provider=GoogleProvider(base_url=settings.base_url, api_key=settings.key))
