/** Thumbnails by URL: which files have one, the required signatures, broken images, and concurrent requests. */
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { localType } from '../../../../drivers/local/index.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { image, looksOf, video } from '../../../drivers/pictures.js'
import { lacks } from '../../../programs.js'
import { serve, type Served } from '../served.js'

/** The first run already has a driver named Local. */
const folderType: AnyDriverType = { ...localType, name: 'Folder' }

interface Fixture {
  readonly served: Served
  readonly folder: string
  /** The URL in the listing, which is also the one in the details of the file. */
  readonly thumbOf: (name: string) => Promise<string>
}

async function fixture(t: Test, options: object = {}, siteUrl = ''): Promise<Fixture> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-http-thumbnails-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  const served = await serve(t, siteUrl, [folderType])
  const addition = JSON.stringify({ ...options, root_folder_path: folder })
  t.match(await served.mount('/a b', 'Folder', { addition }), { code: 200 })
  const thumbOf = async (name: string): Promise<string> => {
    const { data } = await served.post('/api/fs/list', { path: '/a b', refresh: true })
    const { content } = data as { content: { name: string; thumb: string }[] }
    const listed = content.find((object) => object.name === name)?.thumb ?? 'missing'
    const own = await served.post('/api/fs/get', { path: `/a b/${name}` })
    t.equal((own.data as { thumb: string }).thumb, listed, 'the same value as in the listing')
    return listed
  }
  return { served, folder, thumbOf }
}

void t.test('images and videos of a storage that makes thumbnails have thumbnail URLs', async (t) => {
  const { served, folder, thumbOf } = await fixture(t, {}, '/sub')
  for (const name of ['ä #.png', 'b.txt', 'c.mp3']) await writeFile(join(folder, name), await image('png', 300, 200))
  const sign = served.gateway.signedUrls.sign('/a b/ä #.png' as never)
  const link = `${served.url}/d/a%20b/%C3%A4%20%23.png?type=thumb&sign=${sign}`
  t.equal(await thumbOf('ä #.png'), link)
  t.equal(await thumbOf('b.txt'), '')
  t.equal(await thumbOf('c.mp3'), '')
  await served.gateway.settings.set(new Map([['sign_all', 'false']]))
  t.equal(await thumbOf('ä #.png'), link, 'they are signed even without sign_all')

  const response = await fetch(link)
  t.equal(response.status, 200)
  t.equal(response.headers.get('content-type'), 'image/webp')
  t.equal(response.headers.get('x-content-type-options'), 'nosniff')
  t.equal(response.headers.get('content-security-policy'), "sandbox; default-src 'none'")
  t.match(response.headers.get('content-disposition'), /^attachment; filename="%C3%A4%20%23\.png\.webp"/)
  t.equal(response.headers.get('cache-control'), 'private, no-cache')
  const bytes = Buffer.from(await response.arrayBuffer())
  t.equal(response.headers.get('content-length'), String(bytes.length))
  t.same(await looksOf(bytes), [256, 171, 'webp'])
  for (const [query, width] of [
    ['&size=256', 256],
    ['&size=257', 300],
    ['&size=99999', 300],
    ['&size=-1', 256],
    ['&size=x', 256],
  ] as const) {
    const [seen] = await looksOf(Buffer.from(await (await fetch(link + query)).arrayBuffer()))
    t.equal(seen, width, query)
  }

  const head = await fetch(link, { method: 'HEAD' })
  t.equal(head.headers.get('content-length'), String(bytes.length))
  const etag = head.headers.get('etag') ?? ''
  t.equal((await fetch(link, { headers: { 'if-none-match': etag } })).status, 304)
  t.equal((await fetch(link, { headers: { 'if-match': '"x"' } })).status, 412)
  const whole = await fetch(link.replace('type=thumb&', ''))
  t.not(whole.headers.get('etag'), etag, 'the file itself has another ETag')
  await writeFile(join(folder, 'ä #.png'), await image('png', 300, 300))
  t.equal((await fetch(link, { headers: { 'if-none-match': etag } })).status, 200)
  t.equal((await fetch(`${link.replace(/sign=.*/, '')}sign=x:0`)).status, 200, 'sign_all is off')
  t.equal((await fetch(link, { method: 'POST' })).status, 405)
})

void t.test('a thumbnail requires a signature like its file', async (t) => {
  const { served, folder, thumbOf } = await fixture(t)
  await writeFile(join(folder, 'a.png'), await image('png', 300, 200))
  const link = await thumbOf('a.png')
  t.equal((await fetch(link.replace(/&sign=.*/, ''))).status, 401)
  t.equal((await fetch(link.replace('/d/', '/p/'))).headers.get('content-type'), 'image/webp')
  await served.gateway.settings.set(new Map([['sign_all', 'false']]))
  t.equal((await fetch(link.replace(/&sign=.*/, ''))).status, 200)
  await served.rule('/a b', { password: 'secret' })
  t.equal((await fetch(link.replace(/&sign=.*/, ''))).status, 401, 'it was made, and is kept')
  t.equal((await fetch(link)).status, 200)
  // Whatever becomes of the file, its thumbnail is sent to whom the file is sent.
  const statuses = async () => {
    const both = [link, link.replace('type=thumb&', '')].map(async (url) => (await fetch(url)).status)
    return Promise.all(both)
  }
  t.same(await statuses(), [200, 200])
  await served.gateway.settings.set(new Map([['token', 'x'.repeat(40)]]))
  t.same(await statuses(), [401, 401])
  const other = `${link.replace(/sign=.*/, '')}sign=${served.gateway.signedUrls.sign('/a b/a.png' as never)}`
  t.equal((await fetch(other)).status, 200)
  await rm(join(folder, 'a.png'))
  t.equal((await fetch(other)).status, 404)
})

void t.test('a broken picture gets a page with the reason; another file is sent unchanged', async (t) => {
  const { folder, thumbOf } = await fixture(t)
  await writeFile(join(folder, 'cut.png'), (await image('png', 300, 200)).subarray(0, 60))
  const broken = await fetch(await thumbOf('cut.png'))
  t.equal(broken.status, 500)
  t.equal(broken.headers.get('content-type'), 'text/html; charset=utf-8')
  t.match(await broken.text(), /no thumbnail can be made of this image/)
  const vector = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
  await writeFile(join(folder, 'a.svg'), vector)
  const sent = await fetch(await thumbOf('a.svg'))
  t.equal(await sent.text(), vector)
  t.equal(sent.headers.get('content-security-policy'), "sandbox; default-src 'none'")
  const link = await thumbOf('a.svg')
  await rm(join(folder, 'a.svg'))
  t.equal((await fetch(link)).status, 404)
})

void t.test('without the option there are no thumbnail URLs, and the parameter type is ignored', async (t) => {
  const { served, folder, thumbOf } = await fixture(t, { thumbnail: false })
  const bytes = await image('png', 300, 200)
  await writeFile(join(folder, 'a.png'), bytes)
  t.equal(await thumbOf('a.png'), '')
  const sign = served.gateway.signedUrls.sign('/a b/a.png' as never)
  const sent = await fetch(`${served.url}/d/a%20b/a.png?type=thumb&sign=${sign}`)
  t.ok(Buffer.from(await sent.arrayBuffer()).equals(bytes))
})

void t.test('a video has a thumbnail', { skip: lacks('ffmpeg', 'ffprobe') }, async (t) => {
  const { folder, thumbOf } = await fixture(t)
  await video(join(folder, 'a.mp4'))
  const response = await fetch(await thumbOf('a.mp4'))
  t.same(await looksOf(Buffer.from(await response.arrayBuffer())), [256, 144, 'jpeg'])
  await writeFile(join(folder, 'b.mp4'), 'rubbish')
  const broken = await fetch(await thumbOf('b.mp4'))
  t.equal(broken.status, 500)
  t.match(await broken.text(), /no thumbnail can be made of this video/)
})

void t.test('many concurrent thumbnail requests are all answered', async (t) => {
  const { served, folder } = await fixture(t, { thumb_concurrency: '3' })
  const bytes = await image('jpeg', 1200, 800)
  const names = Array.from({ length: 60 }, (_, n) => `${n}.jpg`)
  await Promise.all(names.map((name) => writeFile(join(folder, name), bytes)))
  const link = (name: string) =>
    `${served.url}/d/a%20b/${name}?type=thumb&sign=${served.gateway.signedUrls.sign(`/a b/${name}` as never)}`
  const leaving = new AbortController()
  const left = fetch(link('59.jpg'), { signal: leaving.signal }).catch(() => undefined)
  const asked = names.slice(0, 59).map((name) => fetch(link(name)))
  leaving.abort()
  await left
  for (const answer of await Promise.all(asked)) {
    t.same((await looksOf(Buffer.from(await answer.arrayBuffer()))).slice(0, 2), [256, 171])
  }
  t.equal((await fetch(link('59.jpg'))).status, 200, 'a thumbnail whose request was aborted can be requested again')
})
