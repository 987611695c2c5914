"""`make pictures` on a machine that lacks what the pictures need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="the command needs the extra `e2e`: run `make e2e`")

pytestmark = pytest.mark.e2e

REPOSITORY = Path(__file__).resolve().parents[2]
FONT = "no font has emoji; on Debian or Ubuntu: apt-get install fontconfig fonts-noto-color-emoji\n"


@pytest.mark.parametrize("has_fontconfig", [True, False])
def test_pictures_need_a_font_with_emoji(tmp_path: Path, has_fontconfig: bool) -> None:
    """Without an emoji font the command stops at once, names the package to install, and takes no picture."""
    programs, pictures, fonts = (tmp_path / each for each in ("bin", "pictures", "fonts.conf"))
    programs.mkdir()
    pictures.mkdir()
    (programs / "chromium").symlink_to(shutil.which("false") or "/bin/false")
    if has_fontconfig:
        fc_list = shutil.which("fc-list")
        if fc_list is None:
            pytest.skip("fontconfig is not installed")
        (programs / "fc-list").symlink_to(fc_list)
    fonts.write_text("<fontconfig/>", encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.e2e.pictures", pictures],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": str(programs), "FONTCONFIG_FILE": str(fonts)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, FONT)
    assert list(pictures.iterdir()) == []
