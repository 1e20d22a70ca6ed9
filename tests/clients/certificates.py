"""Certificates for tests, made by the `openssl` command in a folder."""

import subprocess

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

# What `openssl ca` wants to know, the only way to dates in the past.
SETTINGS = """
[ca]
default_ca = own
[own]
serial = number
database = index
new_certs_dir = .
policy = any
[any]
commonName = supplied
"""


def openssl(folder, *args):
    subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)


def request(folder, name, alternative):
    openssl(folder, "req", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    (folder / "extensions").write_text(f"subjectAltName={alternative}\n")


def certify(folder, name, alternative):
    request(folder, name, alternative)
    authority = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-extfile", "extensions"]
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *authority)


def certify_expired(folder, name, alternative):
    request(folder, name, alternative)
    (folder / "ca.cnf").write_text(SETTINGS)
    (folder / "index").write_text("")
    (folder / "number").write_text("01\n")
    authority = ["-batch", "-config", "ca.cnf", "-cert", "ca.crt", "-keyfile", "ca.key", "-md", "sha256", "-notext"]
    dates = ["-startdate", "20200101000000Z", "-enddate", "20210101000000Z", "-extfile", "extensions"]
    openssl(folder, "ca", *authority, *dates, "-in", f"{name}.csr", "-out", f"{name}.crt")


def make(folder, name="authority"):
    """An authority `ca`, and `server` and `client` that it vouches for."""
    folder.mkdir(exist_ok=True)
    openssl(folder, "req", "-x509", *NEW_KEY, "-keyout", "ca.key", "-out", "ca.crt", "-subj", f"/CN={name}", "-days", "30")
    certify(folder, "server", "DNS:localhost,IP:127.0.0.1")
    certify(folder, "client", "DNS:client")
