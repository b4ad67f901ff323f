/**
 * Offline downloads by a storage itself: into its own folders, and by way of a folder of its own into other storages.
 */
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { GatewayError } from '../../src/base/errors.js'
import type { DownloadPlan } from '../../src/offline-downloads/download.js'
import { openStore } from '../../src/database/store.js'
import { DownloadingDrive, downloadingType } from '../drivers/downloading-drive.js'
import { rootId } from '../drivers/id-drive.js'
import { startGateway } from '../gateway.js'
import { storeOf } from '../store-location.js'
import { serve, Served, type Envelope, type TaskShown } from '../protocols/http/served.js'
import { until } from '../until.js'

// The tests mostly wait, each for its own gateway.
t.jobs = 4

const tool = '115 Cloud'
const address = 'https://example.org/film.mp4'
const succeeded = { state: 2, progress: 100, error: '' }

/** A gateway with the drive at `/drive`, and with `/drive/temporary` for other storages. */
async function served(t: Test, drive: DownloadingDrive, folder = '/drive/temporary'): Promise<Served> {
  const admin = await serve(t, '', [downloadingType(drive)])
  t.match(await admin.mount('/drive', 'Downloading Drive'), { code: 200 })
  if (folder !== '') t.match(await admin.post('/api/admin/setting/set_115', { temp_dir: folder }), { data: 'ok' })
  return admin
}

interface Asked {
  readonly path?: string
  readonly urls?: readonly string[]
  readonly policy?: string
}

async function add(admin: Served, asked: Asked = {}): Promise<Envelope> {
  const { path = '/in', urls = [address], policy = 'delete_on_upload_succeed' } = asked
  return admin.post('/api/fs/add_offline_download', { urls, path, tool, delete_policy: policy })
}

async function ended(admin: Served): Promise<readonly TaskShown[]> {
  const downloads = await admin.ended('offline_download')
  return [...downloads, ...(await admin.ended('offline_download_transfer'))]
}

/** The names in the folder for other storages. It is emptied shortly after the tasks have ended. */
const temporary = (admin: Served) => admin.names('/drive/temporary')

async function running(admin: Served): Promise<TaskShown | undefined> {
  return ((await admin.get('/api/task/offline_download/undone')).data as TaskShown[])[0]
}

void t.test('a download into a storage of the tool goes straight there', async (t) => {
  const drive = new DownloadingDrive()
  drive.isFast = false
  const admin = await served(t, drive, '')
  t.strictSame((await admin.get('/api/public/offline_download_tools')).data, [tool, 'SimpleHttp'])
  await add(admin, { path: '/drive/new/folder' })
  await until(() => drive.added.length > 0)
  await until(async () => (await running(admin))?.status === '[115 Cloud]: waiting')
  drive.run(address)
  await until(async () => (await running(admin))?.status === '[115 Cloud]: running')
  t.same(await admin.names('/drive/new/folder'), [])
  await drive.finish(address)
  t.match(await ended(admin), [{ ...succeeded, total_bytes: 8, name: `download ${address} to (/drive/new/folder)` }])
  t.same(await admin.names('/drive/new/folder'), ['film.mp4'])
  t.equal(await admin.content('/drive/new/folder/film.mp4'), 'the film')
  t.same([drive.jobs, drive.added], [[], [address]], 'the drive does not list it any more')
})

void t.test('a download for another storage is transferred there', async (t) => {
  const drive = new DownloadingDrive()
  drive.files = { shared: { 'a.txt': 'a', inner: { 'b.txt': 'bb', empty: {} } } }
  const admin = await served(t, drive)
  await add(admin)
  const [download, transfer] = await ended(admin)
  t.match(download, succeeded)
  t.match(transfer, { ...succeeded, total_bytes: 3 })
  t.match(transfer?.name, /^transfer \[\/drive\]\(\/temporary\/tidegate-[\w-]{22}\/shared\) to \[\/\]\(\/in\)$/)
  t.same((await admin.names('/in/shared')).sort(), ['a.txt', 'inner'])
  t.same((await admin.names('/in/shared/inner')).sort(), ['b.txt', 'empty'])
  t.equal(await admin.content('/in/shared/inner/b.txt'), 'bb')
  await until(async () => (await temporary(admin)).length === 0)
  t.same(drive.jobs, [])
})

void t.test('the policy decides whether the files stay in the folder for other storages', async (t) => {
  const drive = new DownloadingDrive()
  const admin = await served(t, drive)
  await admin.put('/in/film.mp4', 'mine')
  await add(admin, { policy: 'delete_on_upload_succeed' })
  t.match((await ended(admin)).at(-1), { state: 7, error: '/in/film.mp4: "film.mp4" exists already' })
  t.equal((await temporary(admin)).length, 1)
  await admin.post('/api/fs/remove', { dir: '/in', names: ['film.mp4'] })
  await admin.post('/api/task/offline_download_transfer/retry_failed')
  t.match((await ended(admin)).at(-1), succeeded)
  t.equal(await admin.content('/in/film.mp4'), 'the film')
  await until(async () => (await temporary(admin)).length === 0)
  await add(admin, { path: '/other', policy: 'delete_never' })
  await ended(admin)
  await admin.post('/api/task/offline_download/clear_done')
  await admin.post('/api/task/offline_download_transfer/clear_done')
  const kept = await temporary(admin)
  t.match(kept, [/^tidegate-[\w-]{22}-kept$/])
  t.same(await admin.names(`/drive/temporary/${kept[0]}`), ['film.mp4'])
})

void t.test('a target on another storage needs a folder in a storage of the tool', async (t) => {
  const admin = await served(t, new DownloadingDrive(), '')
  const refusal = 'unsupported storage driver for offline download, only 115 Cloud is supported'
  await add(admin)
  t.match(await ended(admin), [{ state: 7, error: refusal }])
  const set = (folder: string) => admin.post('/api/admin/setting/set_115', { temp_dir: folder })
  t.match(await set('/in'), { code: 500, message: '115_temp_dir is not in a storage of Downloading Drive' })
  t.equal(admin.gateway.settings.get('115_temp_dir'), '')
  t.match(await admin.post('/api/admin/setting/set_115_open', { temp_dir: '/drive' }), { code: 500 })
  t.match(await set('/drive/x'), { code: 200 })
  t.equal(admin.gateway.settings.get('115_temp_dir'), '/drive/x')
  t.match(await set(''), { code: 200 })
  await admin.post('/api/admin/setting/save', [{ key: '115_temp_dir', value: '/in' }])
  await add(admin)
  t.match((await ended(admin))[1], { state: 7, error: '115_temp_dir is not in a storage of Downloading Drive' })
})

void t.test('addresses that no backend could mean are rejected at once', async (t) => {
  const drive = new DownloadingDrive()
  const admin = await served(t, drive)
  for (const [url, message] of [
    ['nothing', 'this is no address'],
    ['https://example.org/a\nhttps://example.org/b', 'an address has no control characters'],
    ['https://name:word@example.org/', /user name or password/],
  ] as const) {
    t.match(await add(admin, { urls: [url] }), { code: 500, message }, url)
  }
  await add(admin, { urls: ['ed2k://|file|film.mp4|8|0123456789abcdef0123456789abcdef|/'] })
  t.match(await ended(admin), [succeeded, succeeded])
  t.equal(drive.added.length, 1)
})

void t.test('what the backend refuses fails the task with its reason, and leaves nothing', async (t) => {
  const drive = new DownloadingDrive()
  const admin = await served(t, drive)
  const refuse = async (code: 'invalid' | 'no_space' | 'denied', reason: string, path = '/in') => {
    drive.refusal = new GatewayError(code, { reason })
    await add(admin, { path })
    t.match((await ended(admin)).at(-1), { state: 7, error: reason }, reason)
  }
  await refuse('no_space', 'the quota of the drive is used up')
  await refuse('invalid', 'the drive cannot download this')
  await refuse('denied', 'the drive asks for a captcha', '/drive/in')
  t.same(await temporary(admin), [])
  drive.isFast = false
  await drive.add(rootId, address)
  await add(admin)
  await add(admin, { path: '/drive/in' })
  const lists = { state: 7, error: 'the drive lists this address already' }
  t.match((await ended(admin)).slice(-2), [lists, lists])
  t.equal(drive.jobs.length, 1, 'the download of another program is left alone')
})

void t.test('a download that fails at the backend is removed there', async (t) => {
  const drive = new DownloadingDrive()
  drive.isFast = false
  const admin = await served(t, drive)
  await add(admin)
  await until(() => drive.added.length > 0)
  drive.fail(address, 'the server of this address does not answer the drive')
  t.match(await ended(admin), [{ state: 7, error: 'the server of this address does not answer the drive' }])
  await until(async () => drive.jobs.length === 0 && (await temporary(admin)).length === 0)
  drive.isFast = true
  await admin.post('/api/task/offline_download/retry_failed')
  t.match(await ended(admin), [succeeded, succeeded], 'a retry downloads it anew')
  t.equal(await admin.content('/in/film.mp4'), 'the film')
})

void t.test('a download that is larger than the limit is removed', async (t) => {
  const drive = new DownloadingDrive()
  drive.isFast = false
  drive.shownSize = 2 * 1024 * 1024
  const admin = await served(t, drive)
  await admin.gateway.settings.set(new Map([['offline_download_size_limit', '1']]))
  await add(admin)
  t.match(await ended(admin), [{ state: 7, error: /larger than 1 MB/ }])
  await until(() => drive.jobs.length === 0)
})

void t.test('canceling removes the download at the backend, with its files', async (t) => {
  for (const path of ['/in', '/drive/in']) {
    const drive = new DownloadingDrive()
    drive.isFast = false
    const admin = await served(t, drive)
    const answer = await add(admin, { path })
    await until(async () => (await running(admin))?.status === '[115 Cloud]: waiting')
    const [{ id } = { id: '' }] = (answer.data as { tasks: TaskShown[] }).tasks
    await admin.post(`/api/task/offline_download/cancel?tid=${id}`)
    t.match(await ended(admin), [{ state: 4, error: '' }], path)
    await until(() => drive.jobs.length === 0)
    if (path === '/in') await until(async () => (await temporary(admin)).length === 0)
    // The end of an earlier task must not touch a later download of the same address.
    await add(admin, { path })
    await until(() => drive.added.length === 2)
    await admin.post(`/api/task/offline_download/delete?tid=${id}`)
    await delay(100)
    t.equal(drive.jobs.length, 1)
    await drive.finish(address)
    t.match((await ended(admin))[0], succeeded)
  }
})

void t.test('a lost answer does not start a second download', async (t) => {
  for (const path of ['/in', '/drive/in']) {
    const drive = new DownloadingDrive()
    drive.losesAnswer = true
    const admin = await served(t, drive)
    await add(admin, { path })
    t.match((await ended(admin))[0], succeeded, path)
    t.same(drive.added, [address])
    t.same(await admin.names(path), ['film.mp4'])
  }
})

void t.test('a list that lags, and a download on a later page, are searched until it is found', async (t) => {
  const drive = new DownloadingDrive()
  drive.isFast = false
  const admin = await served(t, drive)
  drive.hiddenPages = 2
  await add(admin)
  await until(() => drive.added.length === 1)
  for (let other = 0; other < 5; other++) await drive.add(rootId, `https://example.org/${other}`)
  const before = drive.pages
  await until(async () => (await running(admin))?.status === '[115 Cloud]: waiting' && drive.pages >= before + 3)
  await drive.finish(address)
  t.match(await ended(admin), [succeeded, succeeded])
  t.same(drive.added.filter((added) => added === address).length, 1)
  t.equal(drive.jobs.length, 5)
})

void t.test('what listings do not show yet is waited for', async (t) => {
  for (const path of ['/in', '/drive/in']) {
    const drive = new DownloadingDrive(1000)
    // The backend does not say how much it has downloaded.
    drive.shownSize = 0
    drive.files = { shared: { 'a.txt': 'a', inner: { 'b.txt': 'bb' } } }
    const admin = await served(t, drive)
    await add(admin, { path })
    const results = await ended(admin)
    for (const task of results) t.match(task, { state: 2, error: '' }, path)
    t.same(await admin.names(path), ['shared'])
    t.same((await admin.names(`${path}/shared`)).sort(), ['a.txt', 'inner'])
    t.equal(await admin.content(`${path}/shared/inner/b.txt`), 'bb')
  }
})

void t.test('a cached listing of the target shows the file at once', async (t) => {
  const drive = new DownloadingDrive()
  const admin = await serve(t, '', [downloadingType(drive)])
  await admin.mount('/drive', 'Downloading Drive', { cache_expiration: 30 })
  await admin.post('/api/fs/mkdir', { path: '/drive/in' })
  t.same(await admin.names('/drive/in'), [])
  await add(admin, { path: '/drive/in' })
  t.match(await ended(admin), [succeeded])
  t.same(await admin.names('/drive/in'), ['film.mp4'])
})

/** Signed in as admin. */
async function connected(t: Test, drive: DownloadingDrive, dataFolder?: string) {
  const options = { driverTypes: [downloadingType(drive)], ...(dataFolder !== undefined && { dataFolder }) }
  const gateway = await startGateway(t, options)
  const admin = new Served(gateway.url, gateway.gateway)
  const credentials = { username: 'admin', password: gateway.adminPassword }
  admin.token = ((await admin.post('/api/auth/login', credentials)).data as { token: string }).token
  return { ...gateway, admin }
}

/** As if the process had been killed between the backend's answer and the storing of the id. */
async function forgetId(dataFolder: string): Promise<void> {
  const node = 'test'
  const store = await openStore(await storeOf(dataFolder), { node })
  await store.nodes.claim(node)
  const [row] = await store.tasks.all()
  if (!row) throw new Error('there is no task')
  const plan = JSON.parse(row.plan) as DownloadPlan
  if (plan.remote?.downloadId === undefined) throw new Error('the id was not stored')
  const remote = { ...plan.remote, downloadId: undefined }
  await store.tasks.update({ ...row, plan: JSON.stringify({ ...plan, remote }) })
  await store.close()
}

void t.test('a restart goes on with the download that the backend makes', async (t) => {
  for (const stage of ['running', 'id not stored', 'done meanwhile'] as const) {
    const drive = new DownloadingDrive()
    drive.isFast = false
    const first = await connected(t, drive)
    await first.admin.mount('/drive', 'Downloading Drive')
    await first.admin.post('/api/admin/setting/set_115', { temp_dir: '/drive/temporary' })
    await add(first.admin)
    await until(async () => (await running(first.admin))?.status === '[115 Cloud]: waiting')
    await first.stop()
    if (stage === 'done meanwhile') await drive.finish(address)
    if (stage === 'id not stored') await forgetId(first.dataFolder)
    const second = await connected(t, drive, first.dataFolder)
    const { admin } = second
    if (stage !== 'done meanwhile') await drive.finish(address)
    t.match(await ended(admin), [succeeded, succeeded], stage)
    t.same(drive.added, [address], stage)
    t.equal(await admin.content('/in/film.mp4'), 'the film')
    await second.stop()
  }
})
