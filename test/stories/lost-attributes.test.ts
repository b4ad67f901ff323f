/** A copied folder whose time and mode the target refuses is reported by the task, and does not fail it. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import { startGateway } from '../gateway.js'
import { altered } from '../tree/tree-fixture.js'
import { connect, ended } from './task-client.js'

void t.test('a copy succeeds and lists the folders whose time and mode were not set', async (t) => {
  const disk = t.testdir()
  let code: ErrorCode = 'denied'
  const type: AnyDriverType = {
    name: 'Refusing',
    fields: {},
    open: async () => altered(new MemoryDriver(0), { setAttributes: () => Promise.reject(new GatewayError(code)) }),
  }
  const running = await startGateway(t, { driverTypes: [type] })
  const client = await connect(running)
  const mount = (path: string, driver: string, addition: object) =>
    client.post('/api/admin/storage/create', { mount_path: path, driver, addition: JSON.stringify(addition) })
  await mount('/disk', 'Local', { root_folder_path: disk })
  await mount('/refusing', 'Refusing', {})
  const run = async (kind: 'copy' | 'move', name: string, folders: number) => {
    for (let index = 0; index < folders; index++) await mkdir(join(disk, name, `${index}`), { recursive: true })
    await writeFile(join(disk, name, 'file'), 'x')
    await client.post(`/api/task/${kind}/clear_done`, {})
    await client.post(`/api/fs/${kind}`, { src_dir: '/disk', dst_dir: '/refusing', names: [name] })
    const [task] = await ended(client, kind)
    return task
  }
  for (const kind of ['copy', 'move'] as const) {
    t.match(await run(kind, kind, 1), {
      state: 2,
      error: '',
      status: `time and mode of 2 folders not set: /disk/${kind}/0: permission denied; /disk/${kind}: permission denied`,
    })
  }
  t.match((await run('copy', 'many', 20))?.status, /^time and mode of 21 folders not set: .*; and 11 more$/)
  code = 'unsupported'
  t.match(
    await run('copy', 'plain', 1),
    {
      state: 2,
      error: '',
      status: /^time and mode of 2 folders not set: .*: this storage cannot set attributes here$/,
    },
    'what a storage cannot keep is no error, and is reported',
  )
})
