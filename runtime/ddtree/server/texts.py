"""A tokenizer and a chat template as one thing: what the training recipe is given of them."""

from __future__ import annotations

from ddtree.models.errors import ModelError
from ddtree.server.chat import ChatTemplate, load_chat
from ddtree.server.tokenizer import Tokenizer, load_tokenizer


class Texts:
    """Satisfies `train.prompts.Texts`."""

    def __init__(self, tokenizer: Tokenizer, chat: ChatTemplate) -> None:
        self.tokenizer, self.chat = tokenizer, chat

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, special=True)

    def decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens)

    def render(self, user: str) -> str:
        return self.chat.render([{"role": "user", "content": user}])

    @property
    def ends(self) -> frozenset[int]:
        return self.tokenizer.eos_ids


def load_texts(model: str) -> Texts:
    """Raises ModelError, also for a model without a chat template."""
    chat = load_chat(model)
    if chat is None:
        raise ModelError(model, "has no chat template, so that nothing can be asked of it")
    return Texts(load_tokenizer(model), chat)
