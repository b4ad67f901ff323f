/**
 * Entries that a task did not copy because of their names are reported by the task, in the fields that clients show.
 */
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import { nameOf } from '../../src/base/path.js'
import { startGateway } from '../gateway.js'
import { altered } from '../tree/tree-fixture.js'
import { connectAll } from './protocols.js'
import { connect, ended } from './task-client.js'

/** A driver that rejects names with a colon. */
const strictType: AnyDriverType = {
  name: 'Strict',
  fields: {},
  open: async () => {
    const memory = new MemoryDriver(0)
    return altered(memory, {
      write: async (path, source, options) => {
        if (nameOf(path).includes(':')) throw new GatewayError('invalid', { reason: 'not a name here' })
        return memory.write(path, source, options)
      },
    })
  },
}

const badName = (text: string) => Buffer.concat([Buffer.from(text), Buffer.from([0xff])])

/** Writes files with such names to a folder of this machine. */
async function writeBad(folder: string, ...names: readonly string[]): Promise<void> {
  for (const name of names) await writeFile(Buffer.concat([Buffer.from(`${folder}/`), badName(name)]), 'x')
}

void t.test('the task of a copy lists the names that were left out', async (t) => {
  const disk = t.testdir()
  const running = await startGateway(t, { driverTypes: [strictType] })
  const client = await connect(running)
  const mount = (path: string, driver: string, addition: object) =>
    client.post('/api/admin/storage/create', { mount_path: path, driver, addition: JSON.stringify(addition) })
  await mount('/disk', 'Local', { root_folder_path: disk })
  await mount('/strict', 'Strict', {})
  await mount('/all', 'Alias', { paths: 'all:/disk' })
  const run = async (kind: 'copy' | 'move', from: string, name: string) => {
    await client.post(`/api/task/${kind}/clear_done`, {})
    await client.post(`/api/fs/${kind}`, { src_dir: from, dst_dir: '/strict', names: [name] })
    const [task] = await ended(client, kind)
    return task
  }
  const folder = async (name: string, ...bad: readonly string[]) => {
    await mkdir(join(disk, name, 'below'), { recursive: true })
    await writeFile(join(disk, name, 'file'), 'x')
    await writeBad(join(disk, name, 'below'), ...bad)
    return name
  }

  await t.test('a copy succeeds and lists the names that it left out', async (t) => {
    const task = await run('copy', '/disk', await folder('one', 'bad'))
    t.match(task, { state: 2, error: '' })
    t.equal(task?.status, 'left out 1 whose names no path can hold: /disk/one/below/bad\ufffd')
  })

  await t.test('a copy through a storage based on another lists them too', async (t) => {
    const task = await run('copy', '/all', await folder('composite', 'bad'))
    t.match(task, { state: 2, error: '', status: /^left out 1 whose names no path can hold: .*\/below\/bad/ })
  })

  await t.test('of many names, the first are listed and all are counted', async (t) => {
    const names = Array.from({ length: 25 }, (_, index) => `${index} `)
    const { state, status = '' } = (await run('copy', '/disk', await folder('many', ...names))) ?? {}
    t.equal(state, 2)
    t.match(status, /^left out 25 whose names/)
    t.match(status, /; and 15 more$/)
    t.equal(status.split('; ').length, 11)
  })

  await t.test('a move leaves these names at the source and lists them', async (t) => {
    const task = await run('move', '/disk', await folder('moved', 'bad'))
    t.match(task, {
      state: 7,
      error: /not empty.*; left out 1 whose names no path can hold: \/disk\/moved\/below\/bad/,
    })
    t.equal((await readdir(join(disk, 'moved', 'below'))).length, 1)
  })

  await t.test('a name that the target cannot hold is an error of the task', async (t) => {
    await mkdir(join(disk, 'colons'))
    for (let index = 0; index < 25; index++) await writeFile(join(disk, 'colons', `a:${index}`), 'x')
    const { state, error = '' } = (await run('copy', '/disk', 'colons')) ?? {}
    t.equal(state, 7)
    t.match(error, /^\/disk\/colons\/a:\d+: not a name here; .*; and 15 more$/)
  })

  await t.test('a folder is removed with all that it holds, whatever the bytes of the names', async (t) => {
    const clients = await connectAll(running, { username: 'admin', password: running.adminPassword })
    for (const client of clients.filter(({ protocol }) => protocol !== 'sftp')) {
      const name = await folder(`removed by ${client.protocol}`, 'bad', 'bad too')
      const deep = join(disk, name, 'below', 'real \ufffd')
      await mkdir(deep)
      await mkdir(Buffer.concat([Buffer.from(`${deep}/`), badName('folder'), Buffer.from('/below')]), {
        recursive: true,
      })
      await writeBad(join(disk, name, 'below'), 'real \ufffd')
      t.equal(await client.remove(`/disk/${name}`), 'done')
      t.notOk((await readdir(disk)).includes(name))
    }
    await Promise.all(clients.map((client) => client.close()))
  })

  await t.test('a copy that leaves nothing out has no remark', async (t) => {
    t.match(await run('copy', '/disk', await folder('plain')), { state: 2, status: '', error: '' })
  })
})
