"""Sandboxed Jinja for prompts, with limits on the steps of a rendering and on the length of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

from jinja2 import Template, nodes
from jinja2.compiler import CodeGenerator
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

STEPS = 1_000_000
"""Maximum number of steps of a rendering: loop passes, calls, included templates, and items of ranges."""

LENGTH = 10_000_000
"""Maximum number of characters of a text (or items of a list) made by a template."""

CALL_STEPS, TEMPLATE_STEPS = 20, 100
"""Steps of a macro call or an included template, relative to a loop pass."""

TEXT_STEP = 1_000
"""Characters read by a filter, or made by a function, in one step."""


class BoundError(Exception):
    """A template with too many steps, or with too long a text."""


class _BoundedCode(CodeGenerator):
    """Code that counts each pass of a loop and checks the length of each concatenated text."""

    def visit_Template(self, node: nodes.Template, frame: Any = None) -> None:  # noqa: N802  (the name Jinja looks for)
        """Compile a template."""
        for loop in node.find_all(nodes.For):
            loop.iter = _filter(loop.iter, "counted_")
        for block in node.find_all(nodes.AssignBlock):
            block.filter = _filter(block.filter, "checked_")
        for parts in [*node.find_all(nodes.Concat)]:
            parts.nodes = [_filter(nodes.Concat(list(parts.nodes), lineno=parts.lineno), "checked_")]
        super().visit_Template(node, frame)


def _filter(node: Any, name: str) -> nodes.Filter:
    result = nodes.Filter(node, name, [], [], None, None)
    result.lineno = getattr(node, "lineno", 1)
    return result


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox in which every rendering ends: see `STEPS` and `LENGTH`."""

    code_generator_class = _BoundedCode
    intercepted_binops = frozenset(("+", "*", "**"))

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.steps = 0
        self.filters = {name: self._bounded(function) for name, function in self.filters.items()}
        self.filters |= {"counted_": self._counted, "checked_": self._checked}

    def count(self, steps: int = 1) -> None:
        """Count steps; BoundError above the limit."""
        self.steps += steps
        if self.steps > STEPS:
            raise BoundError(f"it takes more than {STEPS} steps for one prompt; use fewer loops and calls")

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call a function, a macro or a method."""
        __self.count(CALL_STEPS)
        if __obj is not __self.globals["range"]:  # which has a limit of its own
            __self._check_numbers(args)
        result = super().call(__context, __obj, *args, **kwargs)
        __self.count(len(result) if isinstance(result, range) else _text_steps((result,)))
        return __self._checked(result)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator that can have a large result."""
        sizes = [len(value) if isinstance(value, str | list | tuple) else None for value in (left, right)]
        size = 0
        if operator == "+":
            size = sum(length or 0 for length in sizes)
        elif operator == "*":
            times = [value for value in (left, right) if isinstance(value, int)]
            size = sum(length * max(times, default=0) for length in sizes if length is not None)
        elif isinstance(left, int) and isinstance(right, int):
            size = left.bit_length() * abs(right)
        if size > LENGTH:
            raise BoundError(TOO_LONG)
        return super().call_binop(context, operator, left, right)

    def join_path(self, template: str, parent: str) -> str:
        """Name of an included or extended template."""
        self.count(TEMPLATE_STEPS)
        return super().join_path(template, parent)

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.count()
            yield value

    def _checked(self, value: Any) -> Any:
        if isinstance(value, str | list | tuple) and len(value) > LENGTH:
            raise BoundError(TOO_LONG)
        return value

    def _check_numbers(self, values: Iterable[Any]) -> None:
        if any(isinstance(value, int) and abs(value) > LENGTH for value in values):  # a width or a number of times
            raise BoundError(TOO_LONG)

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            self.count(1 + _text_steps(args))
            self._check_numbers((*args, *kwargs.values()))
            return self._checked(function(*args, **kwargs))

        return called


def _text_steps(values: Iterable[Any]) -> int:
    return sum(len(value) // TEXT_STEP for value in values if isinstance(value, str | list | tuple))


TOO_LONG = f"it makes a text, list or number of more than {LENGTH} characters, items or digits"


def rendered(template: Template, variables: Mapping[str, Any]) -> str:
    """The text of a template; BoundError if it takes too many steps or becomes too long."""
    environment = template.environment
    assert isinstance(environment, BoundedEnvironment)
    environment.steps = 0
    parts, length = list[str](), 0
    for part in template.generate(**variables):
        length += len(part)
        if length > LENGTH:
            raise BoundError(TOO_LONG)
        parts.append(part)
    return "".join(parts)
