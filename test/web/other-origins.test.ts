/**
 * Pages of other origins, in a browser that is signed in to the console, change nothing: neither those of another host
 * nor those of another port, to whose requests the browser adds the cookie.
 */
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { startGateway } from '../gateway.js'
import { listen } from '../protocols/http/listen.js'
import { addUser, unbound, userPassword } from '../security/world.js'
import { sessionCookieAt } from '../session-cookie.js'
import { openPage, signIn, startBrowser, withoutBrowser } from './browser.js'

/**
 * A page whose function `attack` sends requests as other sites can, to the server at `url`, and resolves when all are
 * answered. Signing in with `credentials` would put the visitor into the account of the attacker.
 */
const hostilePage = `<!doctype html>
<script>
async function attack(url, credentials) {
  const bodies = {
    '/api/fs/mkdir': '{"path":"/forged"}',
    '/api/me/session/delete_all': '{}',
    '/api/admin/setting/reset_token': '{}',
    '/api/auth/session': JSON.stringify(credentials),
  }
  for (const [path, body] of Object.entries(bodies)) {
    await fetch(url + path, { method: 'POST', mode: 'no-cors', credentials: 'include', body })
    await submit(url + path, body)
  }
  await new Promise((resolve) => {
    const image = new Image()
    image.onload = image.onerror = resolve
    image.src = url + '/api/auth/logout'
  })
}

// A form can send JSON: its only field is NAME=VALUE.
function submit(action, body) {
  const frame = Object.assign(document.createElement('iframe'), { name: action })
  const form = Object.assign(document.createElement('form'), { action, method: 'post', enctype: 'text/plain', target: action })
  form.append(Object.assign(document.createElement('input'), { name: body.slice(0, -1) + ',"x":"', value: '"}' }))
  document.body.append(frame, form)
  return new Promise((resolve) => setTimeout(() => {
    frame.onload = resolve
    form.submit()
  }, 100))
}
</script>
<body>`

void t.test('pages of other hosts and ports change nothing, and read nothing', { skip: withoutBrowser }, async (t) => {
  const running = await startGateway(t)
  const { gateway, url } = running
  await addUser(running, 'mallory', [])
  const other = await listen(t, (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end(hostilePage)
  })
  const { page } = await openPage(await startBrowser(), url)
  await signIn(page, 'admin', running.adminPassword)
  const [cookie] = await page.context().cookies()
  t.match(cookie, { name: sessionCookieAt(url), httpOnly: true, sameSite: 'Strict', path: '/' })
  t.equal(await page.evaluate('document.cookie'), '', 'scripts do not see it')
  const token = gateway.settings.get('token')
  const sessions = await gateway.store.consoleSessions.all()
  t.equal(sessions.length, 1)

  for (const origin of [other, other.replace('127.0.0.1', 'localhost')]) {
    const tab = await page.context().newPage()
    const sent: Promise<Record<string, string>>[] = []
    tab.on('request', (request) => sent.push(request.allHeaders()))
    await tab.goto(origin)
    const credentials = JSON.stringify({ username: 'mallory', password: userPassword })
    await tab.evaluate(`attack('${url}', ${credentials})`)
    const read = await tab.evaluate(
      (address) => fetch(address, { credentials: 'include' }).then((response) => response.text(), String),
      `${url}/api/me`,
    )
    t.match(read, 'TypeError', origin)
    const cookies = (await Promise.all(sent)).filter((headers) => headers.cookie?.includes(sessionCookieAt(url)))
    t.equal(cookies.length > 0, origin === other, `the browser sends the cookie for ${origin}`)
    await tab.close()
  }

  t.equal(gateway.settings.get('token'), token)
  t.match(await gateway.store.consoleSessions.all(), [{ id: sessions[0]?.id }])
  t.strictSame((await page.context().cookies())[0]?.value, cookie?.value)
  await t.rejects(gateway.as(unbound()).stat(asPath('/forged')), { code: 'not_found' })

  const own = await page.evaluate(async () => {
    const headers = { 'Content-Type': 'application/json' }
    const made = await fetch('/api/fs/mkdir', { method: 'POST', headers, body: '{"path":"/own"}' })
    return made.text()
  })
  t.match(JSON.parse(own), { code: 200 }, 'the page of the console is still signed in, and may')
  await gateway.as(unbound()).stat(asPath('/own'))
})
