"""The built-in model: a small decoder that searches Countdown aloud, with its tokenizer and how both are made."""

from pathlib import Path

WEIGHTS_DIR = Path(__file__).parent / "weights"
"""Where the shipped model lies, in the form `AutoModelForCausalLM.from_pretrained` reads."""
