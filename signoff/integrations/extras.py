from importlib.metadata import PackageNotFoundError, version


def missing_framework(framework: str, extra: str) -> ImportError:
    try:
        version("signoff-client")
    except PackageNotFoundError:
        ours = "signoff"
    else:
        ours = "signoff-client"
    return ImportError(f"this needs {framework}: pip install '{ours}[{extra}]'")
