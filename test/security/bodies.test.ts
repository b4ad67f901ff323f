/** Unusual bodies: rejected, or read as documented, at every endpoint that has fields. */
import t from 'tap'
import { endpoints } from '../../protocols/http/endpoints.js'
import { startGateway } from '../gateway.js'
import { addUser, everyPermission, post, send, signIn, type Envelope } from './world.js'

/** All endpoints with fields in a body; of those for each kind of task, the one for copies. */
const withFields = endpoints
  .filter(({ method, fields }) => method !== 'get' && fields !== undefined)
  .map(({ path, plain }) => ({ endpoint: path.replace('{kind}', 'copy'), isPlain: plain !== undefined }))

/** Parts of texts about faults of the server itself. */
const internals = /\bat .*:\d+:\d+|node_modules|Cannot read|internal error/

const deep = (depth: number): string => '{"path":'.repeat(depth) + '1' + '}'.repeat(depth)

void t.test('every endpoint rejects an unusual body with a client error', async (t) => {
  const running = await startGateway(t)
  const { url } = running
  const id = await addUser(running, 'ada', everyPermission)
  // This is the account of the admin, even if a request renames it.
  const token = running.gateway.settings.get('token')
  const everyField = [
    'path',
    'password',
    'username',
    'name',
    'names',
    'src_dir',
    'dst_dir',
    'dir',
    'rename_objects',
    'src_name_regex',
    'new_name_regex',
    'page',
    'per_page',
    'refresh',
    'overwrite',
    'code',
    'secret',
    'title',
    'key',
    'protocols',
    'id',
    'role',
    'permission',
    'base_path',
    'disabled',
    'mount_path',
    'driver',
    'addition',
    'hide',
    'read_users',
    'value',
    'settings',
  ]
  const allOf = (value: string) => `{${everyField.map((field) => `"${field}":${value}`).join(',')}}`
  const bodies: Readonly<Record<string, string>> = {
    'deep objects': deep(50_000),
    'deep lists': '['.repeat(200_000) + ']'.repeat(200_000),
    'lists for texts': allOf('["x","y"]'),
    'objects for texts': allOf('{"x":{"y":1}}'),
    'numbers for texts': allOf('7'),
    'huge numbers': allOf('1e400'),
    'long numbers': allOf('9'.repeat(400)),
    'negative zero': allOf('-0.0'),
    'flags for texts': allOf('true'),
    'texts that look like objects': allOf('"[object Object]"'),
    prototypes: '{"__proto__":{"path":"/","polluted":1},"constructor":{"prototype":{"polluted":1}}}',
    'lone surrogates': allOf('"\\ud800"'),
    NULs: allOf('"\\u0000"'),
    'a mark before it': '\ufeff{"path":"/"}',
    'something behind it': '{"path":"/"} {"path":"/x"}',
    comments: '{/* x */"path":"/"}',
    'cut off': '{"path":"/',
    'no quotes': '{path:"/"}',
    'not a number': '{"page":NaN}',
  }
  for (const { endpoint, isPlain } of withFields) {
    for (const [shape, body] of Object.entries(bodies)) {
      const answer = await send(
        url,
        'POST',
        endpoint,
        { authorization: token, 'content-type': 'application/json' },
        body,
      )
      if (isPlain) {
        // Errors of such endpoints have the status of the response, and are pages.
        t.ok(answer.status < 500, `${endpoint}, ${shape}: ${answer.status}`)
        if (answer.status !== 200) t.notMatch(answer.text, internals, 'no stack trace or internals')
        continue
      }
      t.equal(answer.status, 200, `${endpoint}, ${shape}`)
      const { code, message } = JSON.parse(answer.text) as Envelope
      t.ok(message !== 'internal error' && message.length < 500, `${endpoint}, ${shape}: ${code} ${message}`)
      t.notMatch(message, internals, 'no stack trace or internals')
    }
  }
  t.notOk('polluted' in {}, 'Object.prototype is unchanged')
  t.equal((await post(url, '/api/me', {}, token)).code, 405)
  t.match(running.gateway.accounts.users.get(id), { username: 'ada', role: 'general' })
})

void t.test('of duplicate fields the last one is both checked and used', async (t) => {
  const running = await startGateway(t)
  const { url } = running
  const token = await signIn(running, 'admin', running.adminPassword)
  const raw = async (endpoint: string, body: string, type = 'application/json') => {
    const answer = await send(url, 'POST', endpoint, { authorization: token, 'content-type': type }, body)
    return JSON.parse(answer.text) as Envelope
  }
  t.match(await raw('/api/fs/mkdir', '{"path":"/../a","path":"/b"}'), { code: 200 })
  t.match(await raw('/api/fs/mkdir', '{"path":"/c","path":"/../d"}'), { code: 403 })
  t.match(await raw('/api/fs/mkdir', '{"path":"/e","Path":"/../f"}'), { code: 200 }, 'field names are case-sensitive')
  const form = 'application/x-www-form-urlencoded'
  t.match(await raw('/api/fs/mkdir', 'path=%2Fg&path=%2Fh', form), { code: 400 }, 'a list is not accepted as text')
  t.match(await raw('/api/fs/mkdir?path=/i', 'path=%2Fj', form), { code: 200 })
  t.match(await raw('/api/fs/mkdir', '__proto__=x&constructor=y&path=%2Fk', form), { code: 200 })
  const multipart = (fields: readonly string[]) =>
    [...fields.map((field) => `--b\r\nContent-Disposition: form-data; name="${field}"\r\n\r\n/l`), '--b--\r\n'].join(
      '\r\n',
    )
  t.match(await raw('/api/fs/mkdir', multipart(['__proto__', 'path']), 'multipart/form-data; boundary=b'), {
    code: 200,
  })
  const { data } = await post(url, '/api/fs/list', { path: '/' }, token)
  const made = (data as { content: { name: string }[] }).content.map(({ name }) => name)
  t.same(made.sort(), ['b', 'e', 'j', 'k', 'l'])
  t.notOk('x' in {})
})
