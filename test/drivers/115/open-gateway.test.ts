/** A gateway with a storage of 115 Open: the download tool of that name, copies without bodies, and duplicate names. */
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { open115Type } from '../../../drivers/115/index.js'
import { serve, type TaskShown } from '../../protocols/http/served.js'
import { startOpen115 } from '../../doubles/115-open.js'
import { credentialsOf } from './open-mount.js'

async function served(t: Test) {
  const double = await startOpen115(t)
  const admin = await serve(t, '', [open115Type])
  const addition = JSON.stringify(credentialsOf(double))
  t.match(await admin.mount('/drive', '115 Open', { addition }), { code: 200 })
  return { double, admin }
}

await t.test('the tool 115 Open lets 115 download into a storage', async (t) => {
  const { double, admin } = await served(t)
  const address = 'https://example.org/film.mp4'
  t.ok(((await admin.get('/api/public/offline_download_tools')).data as string[]).includes('115 Open'))
  const asked = { path: '/drive/films', urls: [address], tool: '115 Open', delete_policy: 'delete_never' }
  t.match(await admin.post('/api/fs/add_offline_download', asked), { code: 200 })
  while (double.offline.tasks.length === 0) await delay(20)
  double.offline.finish(address, 'film.mp4', await double.contents.add('the film'))
  t.match(await admin.ended('offline_download'), [{ state: 2, error: '' }])
  t.same(await admin.names('/drive/films'), ['film.mp4'])
  t.same(double.offline.tasks, [], '115 does not list it any more')
})

await t.test('a copy of a folder within 115 moves no bodies', async (t) => {
  const { double, admin } = await served(t)
  const folder = double.drive.create('0', 'from').id
  const names = Array.from({ length: 40 }, (_, index) => `file ${index}`)
  for (const name of names) double.drive.create(folder, name, await double.contents.add(`content of ${name}`))
  await admin.post('/api/fs/mkdir', { path: '/drive/to' })
  t.match(await admin.post('/api/fs/copy', { src_dir: '/drive', dst_dir: '/drive/to', names: ['from'] }), { code: 200 })
  t.same(await failed(admin.ended('copy')), [])
  t.same((await admin.names('/drive/to/from')).sort(), [...names].sort())
  t.equal(await admin.content('/drive/to/from/file 7'), 'content of file 7')
  t.equal(double.uploads.oss.requests.bodyBytes(), 0)
  t.equal(double.uploads.rapid, names.length)
})

async function failed(tasks: Promise<readonly TaskShown[]>): Promise<readonly TaskShown[]> {
  return (await tasks).filter(({ error }) => error !== '')
}

await t.test('files of one name are all shown, and the status of the storage says so', async (t) => {
  const { double, admin } = await served(t)
  for (const content of ['first', 'second']) double.drive.create('0', 'a.txt', await double.contents.add(content))
  const names = await admin.names('/drive')
  t.equal(names.length, 2)
  t.match(
    names.find((name) => name !== 'a.txt'),
    /^a~[0-9a-f]{8}\.txt$/,
  )
  const { data } = await admin.get('/api/admin/storage/list')
  t.match(JSON.stringify(data), /several entries of \/ have the name \\"a.txt\\"/)
})
