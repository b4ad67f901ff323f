/** A daemon with a storage of Quark: large files, cut and killed uploads, and which clients are redirected. */
import t, { type Test } from 'tap'
import { startQuark } from '../../doubles/quark.js'
import { startDaemon, storageStarted } from '../../gateway.js'
import { connect, ended } from '../../stories/task-client.js'
import { cutByClient, killedTask, largeFile, type DaemonDrive } from '../daemon-drive.js'

const partSize = 4 * 1024 * 1024
/** Bodies of parts of uploads. */
const parts = /^PUT ul-zb\./

async function drive(t: Test): Promise<DaemonDrive> {
  const { environment, session, requests, drive } = await startQuark(t, { partSize })
  return {
    environment,
    driver: 'Quark',
    addition: { cookie: session.cookie },
    sentBytes: () => requests.bodyBytes(parts),
    slowDown: () => requests.inject(parts, { delay: 50 }, 1000),
    files: () => drive.members('0').map(({ name, content }) => [name, content?.sha1.toLowerCase() ?? ''] as const),
  }
}

await t.test('a large file goes up and down in flat memory', async (t) => largeFile(t, await drive(t)))
await t.test('a client that disconnects leaves the old file', async (t) => cutByClient(t, await drive(t)))
await t.test('an upload goes on after the daemon was killed', async (t) => killedTask(t, await drive(t), partSize))

await t.test('clients are redirected to transcoded videos only, and get no cookie', async (t) => {
  const { environment, session } = await startQuark(t)
  const daemon = await startDaemon(t, { environment })
  await storageStarted(daemon)
  const client = await connect(daemon)
  const addition = JSON.stringify({ cookie: session.cookie, use_transcoding_address: true })
  const storage = { mount_path: '/drive', driver: 'Quark', addition, web_proxy: false }
  await client.post('/api/admin/storage/create', storage)
  for (const name of ['film.mp4', 'text.txt']) await client.upload(`/drive/${name}`, Buffer.from('the file itself'))
  await ended(client, 'upload')
  const got = async (name: string) => {
    const { sign } = (await client.post('/api/fs/get', { path: `/drive/${name}` })) as { sign: string }
    return fetch(`${daemon.url}/d/drive/${name}?sign=${sign}`, { redirect: 'manual' })
  }
  const film = await got('film.mp4')
  t.match(film.headers.get('location'), /^https:\/\/video-play-p\.pds\.quark\.cn\//)
  t.equal(film.headers.get('set-cookie'), null)
  t.equal(await (await got('text.txt')).text(), 'the file itself')
  t.equal(await daemon.stop(), 0)
})
