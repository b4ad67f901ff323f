/** What a storage says of itself in an error, visitors of its shares are not told, by any protocol. */
import t from 'tap'
import { memoryType } from '../../drivers/memory/index.js'
import { asPath } from '../../src/base/path.js'
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import { newShare } from '../../src/shares/share-fields.js'
import { testEnv } from '../drivers/env.js'
import { flaky, type Planned } from '../drivers/flaky.js'
import { startGateway } from '../gateway.js'
import { basic, lockinfo, sender } from '../protocols/webdav/dav-client.js'
import { Visitor } from './visitor.js'

const reason = 'the S3 server of example.com refuses this'
const fails = (method: Planned['method'], code: ErrorCode): Planned => ({
  method,
  fault: { kind: 'fail', error: new GatewayError(code, { reason }) },
})

void t.test('the reasons of a storage', async (t) => {
  const plan = [fails('write', 'invalid'), fails('mkdir', 'invalid')]
  const driverTypes = [
    {
      ...memoryType,
      name: 'Refusing',
      open: async () => flaky(await memoryType.open({ size_limit: 0, case_sensitive: true }, testEnv()), plan).driver,
    },
  ]
  const { gateway, ...running } = await startGateway(t, { driver: { name: 'Refusing' }, driverTypes })
  const creatorId = gateway.accounts.users.byUniqueRole('admin')?.id ?? 0
  const fields = { ...newShare, creatorId, mode: 'both', webdav: true } as const
  const { id } = await gateway.shares.create('', fields, [asPath('/')])
  const visitor = new Visitor(running)
  const dav = sender(running, { authorization: basic(id, ''), prefix: `/dav/@s/${id}` })
  const unstorable = 'this name or this content cannot be stored here'
  t.match(await visitor.put(`/@s/${id}/x`, 'x'), { code: 400, message: unstorable })
  t.match(await visitor.ask(`/sd/${id}/x`, { method: 'PUT', body: 'x' }), { status: 400, text: new RegExp(unstorable) })
  const form = new FormData()
  form.append('file', new Blob(['x']), 'x')
  t.match(await visitor.ask(`/sd/${id}`, { method: 'POST', body: form }), { status: 400, text: new RegExp(unstorable) })
  t.match(await visitor.mkdir(`/@s/${id}/x`), { code: 400, message: unstorable })
  for (const [method, status, sent] of [
    ['PUT', 400, 'x'],
    ['LOCK', 400, lockinfo('exclusive')],
    ['MKCOL', 400, undefined],
  ] as const) {
    const { body, status: told } = await dav(method, '/new', {}, sent)
    t.equal(told, status, method)
    visitor.told.push(body)
  }
  t.notMatch(visitor.told.join('\n'), /S3|example/)

  // What is wrong with the request itself is told.
  t.match(await visitor.put(`/@s/${id}/x\u0001`, 'x'), { message: 'a name cannot hold control characters' })
})
