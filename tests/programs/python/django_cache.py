"""Django's cache and its sessions: django_cache.py PORT."""

import sys

import django
from django.conf import settings

settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{sys.argv[1]}/1",
            "KEY_PREFIX": "site",
        }
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    INSTALLED_APPS=["django.contrib.sessions"],
    SECRET_KEY="none",
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402

cache.set("page", {"title": "Hello", "parts": [1, 2.5, None]}, timeout=60)
print("get", cache.get("page"), cache.get("none", "a default"))
print("add", cache.add("page", 1), cache.add("new", 1))
cache.set("hits", 41)
print("incr", cache.incr("hits"), cache.decr("hits", 2))
try:
    cache.incr("nothing")
except ValueError as error:
    print("incr of nothing", type(error).__name__)
print("many", cache.set_many({f"k{n}": n * n for n in range(100)}, timeout=60), sum(cache.get_many(f"k{n}" for n in range(200)).values()))
print("touch", cache.touch("page", 30), cache.touch("none", 30))
cache.set("gone", 1, timeout=0)
print("timeout 0", cache.get("gone"))
print("get_or_set", cache.get_or_set("made", lambda: "once"), cache.get_or_set("made", lambda: "twice"))
print("version", cache.set("v", 1, version=1), cache.incr_version("v"), cache.get("v", version=2))
cache.delete_many(f"k{n}" for n in range(50))
print("deleted", len(cache.get_many(f"k{n}" for n in range(100))), "k1" in cache, "k99" in cache)

session = SessionStore()
session["user"] = "ada"
session.set_expiry(300)
session.save()
again = SessionStore(session_key=session.session_key)
print("session", again["user"], 290 < again.get_expiry_age() <= 300)
again.flush()
print("after a logout", SessionStore(session_key=session.session_key).get("user"))
cache.clear()
print("cleared", cache.get("page"))
