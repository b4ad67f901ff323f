"""Opens a document in a running LibreOffice, changes and saves it, then opens it again.

Arguments: the name of the pipe that LibreOffice listens on, the address of the document, the new text. The environment:
DAV_USER, DAV_PASSWORD. Prints each step to stdout, and continues after each line from stdin.
"""
import os
import sys
import time

import uno
import unohelper
from com.sun.star.beans import PropertyValue
from com.sun.star.connection import NoConnectException
from com.sun.star.task import XInteractionHandler

pipe, address, text = sys.argv[1:]


class SignIn(unohelper.Base, XInteractionHandler):
    """Answers the question for name and password, and no other."""

    def handle(self, request):
        supply = uno.getTypeByName("com.sun.star.ucb.XInteractionSupplyAuthentication")
        for continuation in request.getContinuations():
            answer = continuation.queryInterface(supply)
            if answer:
                answer.setUserName(os.environ["DAV_USER"])
                answer.setPassword(os.environ["DAV_PASSWORD"])
                answer.select()
                return


def connect():
    local = uno.getComponentContext()
    resolver = local.ServiceManager.createInstance("com.sun.star.bridge.UnoUrlResolver")
    for _ in range(300):
        try:
            return resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
        except NoConnectException:
            time.sleep(0.2)
    raise SystemExit("LibreOffice does not answer")


def load(desktop):
    hidden = PropertyValue(Name="Hidden", Value=True)
    handler = PropertyValue(Name="InteractionHandler", Value=SignIn())
    return desktop.loadComponentFromURL(address, "_blank", 0, (hidden, handler))


def say(what):
    print(what, flush=True)


context = connect()
desktop = context.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", context)
document = load(desktop)
say(f"opened: {document.Text.getString()}")
sys.stdin.readline()
document.Text.setString(text)
document.store()
say("stored")
sys.stdin.readline()
document.close(True)
say("closed")
sys.stdin.readline()
document = load(desktop)
say(f"opened: {document.Text.getString()}")
document.close(True)
