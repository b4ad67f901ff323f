/** A user who may write files and not read them uploads with several handles of one session. */
import t from 'tap'
import { asPath } from '../../../src/base/path.js'
import { startGateway } from '../../gateway.js'
import { addUser, everyPermission, packets, store, unbound } from '../../security/world.js'
import { flags, status } from './packet-client.js'

void t.test('a file that is opened again is not asked for the right to read', async (t) => {
  const running = await startGateway(t)
  const { gateway } = running
  const all = gateway.as(unbound())
  await all.mkdir(asPath('/drop'))
  const userId = await addUser(running, 'ann', everyPermission)
  await gateway.grants.replace({ userId }, [{ path: asPath('/drop'), allow: ['see', 'write'], deny: ['read'] }])
  const client = await packets(t, running, 'ann')
  const anew = flags.write | flags.create | flags.truncate
  const content = async (path: string) => {
    const chunks: Buffer[] = []
    for await (const chunk of await all.read(asPath(path))) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks).toString()
  }

  const [first, second] = [await client.mustOpen('/drop/file', anew), await client.mustOpen('/drop/file', anew)]
  t.equal(await client.write(second, 0, 'again'), status.ok)
  t.equal(await client.close(second), status.ok)
  t.equal(await client.write(first, 5, ' and more'), status.ok, 'after the file was published')
  t.equal(await client.close(first), status.ok)
  t.equal(await content('/drop/file'), 'again and more')

  await store(all, '/drop/old', 'old content')
  const updated = await client.mustOpen('/drop/old', flags.write)
  t.equal(await client.write(updated, 0, 'new'), status.ok)
  t.equal(await client.close(updated), status.ok)
  t.equal(await content('/drop/old'), 'new content')
  t.equal(await client.open('/drop/old', flags.read), status.denied, 'it is not read')
  t.equal(await client.open('/drop/old', flags.read | flags.write), status.denied)
})
