#!/usr/bin/env python3
"""Looks at the page of a running gateway in headless Chromium, and writes pictures of it.

    scripts/look.py http://127.0.0.1:7090/ DIRECTORY

Light and dark, as wide as a desk and as narrow as a telephone, and one flow in detail that was reached by keys alone.
It fails if the page says nothing, throws, asks anybody but its own server, or is wider than the telephone.
"""
import base64, json, os, subprocess, sys, tempfile, time

url, folder = sys.argv[1:3]
os.makedirs(folder, exist_ok=True)
to_read, to_write = os.pipe(), os.pipe()


def inherit():
    # Chromium reads commands at descriptor 3 and answers at 4.
    a, b = os.dup(to_read[0]), os.dup(to_write[1])
    os.dup2(a, 3), os.dup2(b, 4)


profile = tempfile.mkdtemp()
chromium = subprocess.Popen(
    ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
     f"--user-data-dir={profile}", "--remote-debugging-pipe"],
    preexec_fn=inherit, close_fds=False, stderr=subprocess.DEVNULL)
os.close(to_read[0]), os.close(to_write[1])
answers = os.fdopen(to_write[0], "rb")
count, buffer, requests, complaints = 0, b"", [], []


def take():
    global buffer
    while b"\0" not in buffer:
        part = os.read(answers.fileno(), 1 << 16)
        if not part:
            sys.exit("chromium is gone")
        buffer += part
    message, buffer = buffer.split(b"\0", 1)
    message = json.loads(message)
    if message.get("method") == "Network.requestWillBeSent":
        requests.append(message["params"]["request"]["url"])
    if message.get("method") == "Runtime.exceptionThrown":
        complaints.append(json.dumps(message["params"]["exceptionDetails"])[:400])
    return message


def ask(method, session=None, **params):
    global count
    count += 1
    message = {"id": count, "method": method, "params": params}
    if session:
        message["sessionId"] = session
    os.write(to_read[1], json.dumps(message).encode() + b"\0")
    while True:
        answer = take()
        if answer.get("id") == count:
            if "error" in answer:
                sys.exit(f"{method}: {answer['error']}")
            return answer["result"]


target = ask("Target.createTarget", url="about:blank")["targetId"]
session = ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
page = lambda method, **params: ask(method, session, **params)
page("Page.enable"), page("Runtime.enable"), page("Network.enable")


def value(expression):
    return page("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")


def key(name, code=None, text=None):
    for kind in ("keyDown", "keyUp"):
        extra = {"text": text} if text and kind == "keyDown" else {}
        page("Input.dispatchKeyEvent", type=kind, key=name, code=code or name,
             windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "Escape": 27}.get(name, ord(name[0].upper())), **extra)


def until(expression, what):
    give_up = time.time() + 20
    while not value(expression):
        if time.time() > give_up:
            sys.exit(f"the page never {what}")
        time.sleep(0.2)


def picture(name, width, scheme, scale=1):
    page("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=scale, mobile=width < 600)
    time.sleep(1.5)
    height = int(value("Math.ceil(document.documentElement.scrollHeight)"))
    wide = int(value("document.documentElement.scrollWidth"))
    if wide > width:
        sys.exit(f"{name}: {wide} pixels wide on {width}")
    shot = page("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                clip={"x": 0, "y": 0, "width": width, "height": min(height, 2600), "scale": 1})
    with open(os.path.join(folder, name), "wb") as file:
        file.write(base64.b64decode(shot["data"]))
    print(f"{name}: {width} x {height}")


page("Page.navigate", url=url)
until("document.getElementById('live').textContent === 'live'", "came to life")
until("document.querySelectorAll('#flows tbody tr[tabindex]').length > 0", "listed a flow")
picture("page.png", 1180, "light")
picture("page-dark.png", 1180, "dark")
picture("page-phone.png", 390, "light", 2)
# By keys alone: the flows, the first of them, back.
page("Emulation.setDeviceMetricsOverride", width=1180, height=900, deviceScaleFactor=1, mobile=False)
for attempt in range(10):
    key("3", "Digit3", "3")
    for _ in range(12):
        key("Tab")
        if value("document.activeElement.dataset && document.activeElement.closest('#flows tbody') !== null"):
            break
    key("Enter", text="\r")
    time.sleep(0.5)
    if value("!document.getElementById('detail').hidden"):
        break
else:
    sys.exit("no flow could be opened by keys")
print("a flow was opened by keys:", value("document.querySelector('#detail h2').textContent"))
picture("page-flow.png", 1180, "light")
key("Escape")
time.sleep(0.5)
if not value("document.getElementById('detail').hidden"):
    sys.exit("Escape does not lead back")
took = value("(() => { const began = performance.now(); show(last); return performance.now() - began; })()")
print(f"one redraw takes {took:.1f} ms")
strangers = [asked for asked in requests if not asked.startswith((url, "data:"))]
if strangers or complaints:
    sys.exit(f"asked {strangers}, complained {complaints}")
print(f"{len(requests)} requests, all to its own server; no exceptions")
chromium.kill()
