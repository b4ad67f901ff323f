/** The usage of storages, in listings. */
import t from 'tap'
import { MemoryDriver } from '../../../../drivers/memory/memory.js'
import type { Usage } from '../../../../src/contract/capabilities.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { serve } from '../served.js'

const wire = { total_space: 10, used_space: 4, free_space: 6 }

function storage(name: string, usage: () => Promise<Usage>): AnyDriverType {
  return { name, fields: {}, open: async () => Object.assign(new MemoryDriver(0), { usage }) }
}

const types = [
  storage('Full', async () => ({ total: 10, used: 4, free: 6 })),
  storage('Dead', () => new Promise(() => undefined)),
  storage('Refusing', () => Promise.reject(new GatewayError('unavailable'))),
]

interface Item {
  readonly name: string
  readonly mount_details?: object
}

void t.test('mount points in listings have the usage of their storage if the setting is on', async (t) => {
  const served = await serve(t, '', types)
  for (const type of types) await served.mount(`/a/${type.name}`, type.name)
  await served.put('/a/Full/file', 'x')
  const details = async (as = served, path = '/a'): Promise<Record<string, object | undefined>> => {
    const { data } = await as.post('/api/fs/list', { path })
    const { content } = data as { content: Item[] }
    return Object.fromEntries(content.map(({ name, mount_details: each }) => [name, each]))
  }
  const none = { Full: undefined, Dead: undefined, Refusing: undefined }
  t.strictSame(await details(), none, 'the setting is off by default')
  await served.gateway.settings.set(new Map([['hide_storage_details', 'false']]))

  const timed = async () => {
    const begin = performance.now()
    t.strictSame(await details(), { ...none, Full: wire })
    return performance.now() - begin
  }
  const first = await timed()
  t.ok((await timed()) < first, 'later requests do not wait for an unresponsive one')

  t.match(await served.post('/api/fs/get', { path: '/a/Full' }), { data: { mount_details: wire } })
  for (const path of ['/a', '/a/Dead', '/a/Full/file']) {
    const { data } = await served.post('/api/fs/get', { path })
    t.notOk('mount_details' in (data as object), path)
  }
  const ann = await served.as('ann', [], '/a')
  t.strictSame(await details(ann, '/'), { ...none, Full: wire })

  const guest = served.gateway.accounts.users.list().find(({ role }) => role === 'guest')
  await served.gateway.accounts.users.update(guest?.id ?? 0, { disabled: false })
  served.token = ''
  t.strictSame(await details(), none, 'guests do not see the usage')
})

void t.test('the listing of a folder does not wait for a mounted storage that is starting', async (t) => {
  const begun = { count: 0 }
  const late: AnyDriverType = {
    name: 'Late',
    fields: {},
    open: () => {
      begun.count++
      return new Promise(() => undefined)
    },
  }
  const served = await serve(t, '', [late])
  await served.gateway.settings.set(new Map([['hide_storage_details', 'false']]))
  served.mount('/a/late', 'Late').catch(() => undefined)
  while (begun.count === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  t.same(await served.names('/a'), ['late'])
})

void t.test('the list of storages does not wait for unresponsive ones', async (t) => {
  const served = await serve(t, '', types)
  for (const type of types) await served.mount(`/${type.name}`, type.name)
  await served.gateway.settings.set(new Map([['hide_storage_details_in_manage_page', 'false']]))
  for (let count = 0; count < 2; count++) {
    const { data } = await served.get('/api/admin/storage/list')
    const { content } = data as { content: { mount_path: string; mount_details?: object }[] }
    t.same(content.find(({ mount_path: path }) => path === '/Full')?.mount_details, wire)
    t.notOk(content.find(({ mount_path: path }) => path === '/Dead')?.mount_details)
  }
})
