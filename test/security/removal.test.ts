/** No request removes entries that its user cannot see or access. */
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { names, status, string } from '../protocols/sftp/packet-client.js'
import {
  addRule,
  addUser,
  basic,
  busy,
  mark,
  packets,
  post,
  send,
  signIn,
  startWorld,
  store,
  type World,
} from './world.js'

/** Folders that contain, at some depth, an entry that the user may not remove. */
const holders = {
  '/hides/d/e/veiled': 'a hidden file',
  '/closed/d/e/locked/x': 'a folder with a password',
  '/others/d/e/theirs/x': 'a folder for other readers',
  '/kept/d/e/protected/x': 'a folder that they may not write',
} as const

async function world(t: Parameters<typeof startWorld>[0]): Promise<World> {
  const running = await startWorld(t)
  for (const path of Object.keys(holders)) await store(running.all, path, mark)
  await store(running.all, '/mine/x', 'mine')
  await addRule(running, '/hides', { hide: '^veiled$', hideSub: true })
  await addRule(running, '/closed/d/e/locked', { password: 'sesame', passwordSub: true })
  await addRule(running, '/others/d/e/theirs', { readUsers: [1], readUsersSub: true })
  await addRule(running, '/kept/d/e/protected', { writeUsers: [1], writeUsersSub: true })
  await addUser(running, 'oscar', busy)
  return running
}

void t.test('removing a folder fails as a whole if it contains entries that the user cannot access', async (t) => {
  const running = await world(t)
  const { url, all } = running
  const token = await signIn(running, 'oscar')
  const authorization = basic('oscar')
  const api = async (endpoint: string, body: object) =>
    (await post(url, `/api/fs/${endpoint}`, body, token)).code !== 200
  const dav = async (method: string, path: string, headers: Record<string, string> = {}) => {
    const answer = await send(url, method, `/dav${path}`, { authorization, ...headers })
    return answer.status >= 400
  }
  const session = await packets(t, running, 'oscar')
  for (const [path, what] of Object.entries(holders)) {
    const top = path.slice(0, path.indexOf('/', 1))
    const name = top.slice(1)
    const refusals: Readonly<Record<string, () => Promise<boolean>>> = {
      'POST /api/fs/remove': () => api('remove', { dir: '/', names: [name] }),
      'POST /api/fs/remove of a folder in it': () => api('remove', { dir: top, names: ['d'] }),
      'POST /api/fs/remove of the folder around it': () => api('remove', { dir: `${top}/d`, names: ['e'] }),
      'POST /api/fs/copy over it': () => api('copy', { src_dir: '/mine', dst_dir: top, names: ['d'], overwrite: true }),
      DELETE: () => dav('DELETE', top),
      'MOVE over it': () => dav('MOVE', '/mine', { destination: `${url}/dav${top}`, overwrite: 'T' }),
      'COPY over it': () => dav('COPY', '/mine', { destination: `${url}/dav${top}`, overwrite: 'T' }),
      RMDIR: async () => (await session.status(names.rmdir, string(`${top}/d/e`))) !== status.ok,
    }
    await store(all, '/mine/d/x', 'mine')
    for (const [title, refused] of Object.entries(refusals)) {
      t.ok(await refused(), `${title}: ${what}`)
      t.equal((await all.stat(asPath(path))).size, mark.length, 'nothing of it is removed')
      t.ok(await all.stat(asPath('/mine/d/x')), 'the source of the replacement remains')
    }
    const cleared = await post(url, '/api/fs/remove_empty_directory', { src_dir: '/' }, token)
    t.match(cleared, { code: 200 })
    t.equal((await all.stat(asPath(path))).size, mark.length, 'a folder with hidden entries is not empty')
  }
  await all.stat(asPath('/mine/x'))
})

void t.test('a user who sees hidden entries may remove them, and every user a folder without any', async (t) => {
  const running = await world(t)
  await addUser(running, 'seer', [...busy, 'seeHidden'])
  await store(running.all, '/hides/open/d/x', 'mine')
  const remove = async (username: string, dir: string, name: string) =>
    (await post(running.url, '/api/fs/remove', { dir, names: [name] }, await signIn(running, username))).code
  t.equal(await remove('oscar', '/hides', 'open'), 200)
  t.equal(await remove('seer', '/', 'hides'), 200)
  await t.rejects(running.all.stat(asPath('/hides')), { code: 'not_found' })
})

void t.test('a copy contains the entries that the user sees, and fails for a folder with a password', async (t) => {
  const running = await world(t)
  const token = await signIn(running, 'oscar')
  const copy = async (name: string) =>
    (await post(running.url, '/api/fs/copy', { src_dir: '/', dst_dir: '/mine', names: [name] }, token)).code
  t.equal(await copy('hides'), 200)
  t.same((await running.all.list(asPath('/mine/hides/d/e'))).entries, [], 'hidden entries are left out')
  t.equal(await copy('others'), 200)
  t.same((await running.all.list(asPath('/mine/others/d/e'))).entries, [], 'entries for other users are left out')
  t.equal(await copy('closed'), 403, 'a partial copy of a visible folder would look complete')
  t.equal(await copy('kept'), 200, 'a readable folder may be copied')
})
