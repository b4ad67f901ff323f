/** Storages whose handles cannot truncate or flush: nothing is published that the client did not write. */
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { OpenFile } from '../../../src/contract/capabilities.js'
import type { Driver } from '../../../src/contract/driver.js'
import { GatewayError } from '../../../src/base/errors.js'
import type { Log } from '../../../src/base/log.js'
import { createLog } from '../../../src/process/log.js'
import { startGateway } from '../../gateway.js'
import { altered } from '../../tree/tree-fixture.js'
import { flags, names, PacketClient, status, string, symlinkTypes, types, uint32, uint64 } from './packet-client.js'
import { openChannel, serveProtocol } from './server-fixture.js'

const { write, create, truncate } = flags

/** What replaces `truncate` and `sync` of each handle. */
const kinds: Readonly<Record<string, Pick<OpenFile, 'truncate' | 'sync'>>> = {
  'a handle without truncate and sync': {},
  'a handle that rejects truncate and sync': {
    truncate: async () => Promise.reject(new GatewayError('unsupported')),
    sync: async () => Promise.reject(new GatewayError('unsupported')),
  },
}

function limitedDriver(methods: Pick<OpenFile, 'truncate' | 'sync'>): Driver {
  const memory = new MemoryDriver(0)
  return altered(memory, {
    open: async (...call) => {
      const file: OpenFile = { ...(await memory.open(...call)) }
      delete file.truncate
      delete file.sync
      return { ...file, ...(file.write && methods) }
    },
  })
}

async function started(
  t: Test,
  methods: Pick<OpenFile, 'truncate' | 'sync'>,
  log: Log = createLog('silent'),
  driver = limitedDriver(methods),
) {
  const driverTypes = [{ name: 'Limited', fields: {}, open: async () => driver }]
  const config = { sftp: 'off' }
  const { gateway } = await startGateway(t, { config, driver: { name: 'Limited' }, driverTypes, log })
  await gateway.settings.set(new Map([['sftp_keep_partial_uploads', 'true']]))
  const protocol = await serveProtocol(t, gateway)
  return async () => {
    const ssh = await protocol.connect()
    const client = new PacketClient(await openChannel(ssh))
    await client.start()
    return { ssh, client }
  }
}

for (const [name, methods] of Object.entries(kinds)) {
  void t.test(`${name}: an interrupted upload with a gap is not stored`, async (t) => {
    const connect = await started(t, methods)
    const { ssh, client } = await connect()
    const whole = await client.mustOpen('/whole', write | create | truncate)
    await client.write(whole, 0, 'first')
    const gapped = await client.mustOpen('/gap', write | create | truncate)
    await client.write(gapped, 0, 'first')
    await client.write(gapped, 1000, 'last')
    const gone = once(ssh, 'close')
    ssh.destroy()
    await gone
    await wait(200)
    const { client: other } = await connect()
    t.equal(await other.get('/whole'), 'first')
    t.equal(await other.get('/gap'), status.noSuchFile)
  })

  void t.test(`${name}: a new file that is opened again to be rewritten has the new content only`, async (t) => {
    const { client } = await (await started(t, methods))()
    const first = await client.mustOpen('/x', write | create | truncate)
    await client.write(first, 0, 'a long content')
    const second = await client.mustOpen('/x', write | create | truncate)
    await client.write(second, 0, 'short')
    t.equal(await client.close(second), status.ok)
    t.equal(await client.close(first), status.ok)
    t.equal(await client.get('/x'), 'short')
  })

  void t.test(`${name}: a new size is refused, and the file is unchanged`, async (t) => {
    const { client } = await (await started(t, methods))()
    await client.put('/x', 'content')
    t.equal(await client.status(types.setstat, string('/x'), uint32(1), uint64(3)), status.unsupported)
    const inPlace = await client.mustOpen('/x', write)
    t.equal(await client.status(types.fsetstat, string(inPlace), uint32(1), uint64(3)), status.unsupported)
    t.equal(await client.close(inPlace), status.ok)
    const staged = await client.mustOpen('/x', write | create | truncate)
    await client.write(staged, 0, 'new content')
    t.equal(await client.status(types.fsetstat, string(staged), uint32(1), uint64(3)), status.unsupported)
    t.not(await client.close(staged), status.ok)
    t.equal(await client.get('/x'), 'content')
  })

  void t.test(`${name}: fsync succeeds, which is logged once, and CLOSE stores the file`, async (t) => {
    let text = ''
    const log = pino({}, { write: (line) => void (text += line) })
    const { client } = await (await started(t, methods, log))()
    const handle = await client.mustOpen('/x', write | create | truncate)
    await client.write(handle, 0, 'content')
    const fsync = () => client.status(symlinkTypes.extended, string('fsync@openssh.com'), string(handle))
    t.same([await fsync(), await fsync()], [status.ok, status.ok])
    t.equal(text.split('fsync has no effect on this storage').length, 2)
    t.equal(await client.close(handle), status.ok)
    t.equal(await client.get('/x'), 'content')
  })
}

void t.test('a folder is made although its storage refuses its mode, and the log says so', async (t) => {
  let text = ''
  const log = pino({}, { write: (line) => void (text += line) })
  const driver = altered(new MemoryDriver(0), {
    setAttributes: async () => Promise.reject(new GatewayError('unsupported')),
  })
  const { client } = await (await started(t, {}, log, driver))()
  t.equal(await client.status(names.mkdir, string('/folder'), uint32(4), uint32(0o700)), status.ok)
  t.match(text, '"path":"/folder","mode":448,"msg":"the mode of a new folder has no effect on this storage"')
})
