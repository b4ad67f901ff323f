/** Which endpoints the audit records: all that change something besides the tree and its tasks. */
import t from 'tap'
import { endpoints } from '../../../protocols/http/endpoints.js'
import { eventKinds } from '../../../src/base/event-kinds.js'

/** Requests that change nothing, whatever their method is; and those whose events are raised where they are made. */
const others: Readonly<Record<string, string>> = {
  'post /api/admin/explain': 'asks',
  'post /api/admin/setting/default': 'asks',
  'post /api/admin/setting/try_ldap': 'asks',
  'post /api/admin/setting/try_sso': 'asks',
  'post /api/admin/storage/qr_answer': 'asks',
  'post /api/admin/storage/qr_code': 'asks',
  'post /api/admin/storage/try': 'asks',
  'post /api/fs/link': 'asks',
  'post /api/auth/session/confirm': 'a sign-in, by Accounts',
  'post /api/auth/session/confirm/passkey': 'a sign-in, by Accounts',
  'post /api/auth/2fa/generate': 'makes a secret that is not stored',
  'any /api/share/list': 'asks',
}

void t.test('every endpoint that changes something besides the tree declares its event', (t) => {
  const changing = endpoints.filter(({ method, path, access }) => {
    // The end of a task is recorded, also of one that was canceled.
    if (method === 'get' || /^\/api\/(?:admin\/)?task\//.test(path)) return false
    return access === 'admin' || (access === 'user' && !path.startsWith('/api/fs/'))
  })
  t.ok(changing.length > 30)
  for (const { method, path, event } of changing) {
    const name = `${method} ${path}`
    if (name in others) t.equal(event, undefined, `${name}: ${others[name]}`)
    else t.ok(event !== undefined && eventKinds.includes(event), `${name} has no event`)
  }
  for (const name of Object.keys(others)) {
    t.ok(
      changing.some(({ method, path }) => `${method} ${path}` === name),
      `${name} exists`,
    )
  }
  t.end()
})
