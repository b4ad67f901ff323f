/** A change by one protocol is visible to the next request by every other. */
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { startGateway } from '../gateway.js'
import { connectAll, type ProtocolClient } from './protocols.js'

void t.test('a change by one protocol is immediately visible by every other', async (t) => {
  const running = await startGateway(t)
  const protocols = await connectAll(running, { username: 'admin', password: running.adminPassword })
  t.teardown(() => Promise.all(protocols.map((protocol) => protocol.close())))

  for (const one of protocols) {
    for (const other of protocols) {
      if (one === other) continue
      await t.test(`from ${one.protocol} to ${other.protocol}`, (t) => changesAreSeen(t, one, other))
    }
  }
})

async function changesAreSeen(t: Test, one: ProtocolClient, other: ProtocolClient): Promise<void> {
  const folder = `/${one.protocol} to ${other.protocol} é世界 %41#`
  const [first, second, third] = [randomBytes(100_000), randomBytes(70_000), Buffer.alloc(0)]

  // Caches the listing, which must not hide the following changes.
  await other.names('/')
  t.equal(await one.makeFolder(folder), 'done')
  t.same(await other.names(folder), [])

  t.equal(await one.put(`${folder}/a`, first), 'done')
  t.same(await other.get(`${folder}/a`), first, 'a written file is read unchanged')
  t.same(await other.names(folder), ['a'])

  t.equal(await one.put(`${folder}/a`, second), 'done')
  t.same(await other.get(`${folder}/a`), second, 'an overwritten file is read with its new content')

  t.equal(await one.put(`${folder}/empty`, third), 'done')
  t.same(await other.get(`${folder}/empty`), third)

  t.equal(await one.rename(`${folder}/a`, `${folder}/b`), 'done')
  t.equal(await other.get(`${folder}/a`), 'missing')
  t.same(await other.get(`${folder}/b`), second)
  t.same(await other.names(folder), ['b', 'empty'])

  t.equal(await one.remove(`${folder}/b`), 'done')
  t.equal(await other.get(`${folder}/b`), 'missing')
  t.equal(await one.remove(`${folder}/empty`), 'done')
  t.same(await other.names(folder), [])

  t.equal(await one.remove(folder), 'done')
  const names = await other.names('/')
  t.notOk(Array.isArray(names) && names.includes(folder.slice(1)))
}
