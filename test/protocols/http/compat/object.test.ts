/** Entries as objects of the API: types, times, signatures and thumbnails. */
import { BlockList } from 'node:net'
import t from 'tap'
import { httpApi } from '../../../../protocols/http/server.js'
import { fileObjectConverter, folderForm, wireTime } from '../../../../protocols/http/compat/object.js'
import type { Entry } from '../../../../src/contract/entry.js'
import { asPath } from '../../../../src/base/path.js'
import type { Gateway } from '../../../../src/gateway/gateway.js'
import type { FolderView } from '../../../../src/tree/virtual-fs.js'

const settings: Record<string, string> = {
  audio_types: 'mp3,OGG',
  video_types: 'mp4, mkv,ogg',
  image_types: 'png',
  text_types: 'txt,gitignore,,',
  sign_all: 'false',
}
const gateway = {
  settings: {
    get: (key: string) => settings[key] ?? '',
    bool: (key: string) => settings[key] === 'true',
    guard: () => () => undefined,
  },
  signedUrls: { sign: (path: string) => `signed:${path}` },
} as unknown as Gateway
const api = httpApi(gateway, { trustedProxies: new BlockList(), siteUrl: '' })
const view = { signed: false, thumbnails: ['image'] } as unknown as FolderView
const site = 'https://files.example/sub'
const converter = (folder: string, shown = view) =>
  fileObjectConverter(api, folderForm(api, asPath(`/home/ann${folder}`), shown, site))
const entry: Entry = { name: 'a.txt', kind: 'file', size: 5, modified: new Date('2024-05-17T16:05:36.465Z') }

void t.test('an entry becomes an object of the API', async (t) => {
  const object = converter('/docs')
  t.strictSame(object(entry), {
    name: 'a.txt',
    size: 5,
    is_dir: false,
    modified: '2024-05-17T16:05:36.465Z',
    created: '2024-05-17T16:05:36.465Z',
    sign: '',
    thumb: '',
    type: 4,
    hashinfo: 'null',
    hash_info: null,
  })
  t.match(object({ ...entry, hashes: { md5: 'ab' } }), { hashinfo: '{"md5":"ab"}', hash_info: { md5: 'ab' } })
  t.match(object({ ...entry, name: 'a.mp3', kind: 'folder' }), { is_dir: true, type: 1, sign: '' })
})

void t.test('a signature is of the path of the whole tree, if one is required', async (t) => {
  const signed = converter('/docs', { ...view, signed: true })
  t.equal(signed(entry).sign, 'signed:/home/ann/docs/a.txt')
  t.equal(signed({ ...entry, kind: 'folder' }).sign, '')
  settings.sign_all = 'true'
  t.equal(converter('')(entry).sign, 'signed:/home/ann/a.txt')
  settings.sign_all = 'false'
})

void t.test('the type follows the extension and the settings', async (t) => {
  const types = () => {
    const typeOf = api.fileTypes.classifier()
    return ['x.mp3', 'x.MKV', 'x.ogg', 'x.png', '.gitignore', 'x.', 'x', 'x.y.txt', 'txt'].map(typeOf)
  }
  t.same(types(), [3, 2, 3, 5, 4, 0, 0, 4, 0])
  settings.text_types = 'y'
  t.same(types(), [3, 2, 3, 5, 0, 0, 0, 0, 0])
})

void t.test('times outside of the years 1 to 9999 are sent as the zero time', async (t) => {
  t.equal(wireTime(new Date(0)), '1970-01-01T00:00:00.000Z')
  for (const date of [undefined, new Date(NaN), new Date(8.64e15), new Date(-8.64e15)]) {
    t.equal(wireTime(date), '0001-01-01T00:00:00Z')
  }
})

void t.test('a thumbnail is that of the backend, or a signed URL if the storage makes thumbnails', async (t) => {
  const object = converter('/a b')
  const link = `${site}/d/home/ann/a%20b/%C3%A4%23.PNG?type=thumb&sign=signed:/home/ann/a b/ä#.PNG`
  t.equal(object({ ...entry, name: 'ä#.PNG' }).thumb, link)
  t.equal(object({ ...entry, name: 'a.mkv' }).thumb, '', 'not for videos')
  t.equal(object({ ...entry, name: 'a.png', kind: 'folder' }).thumb, '')
  t.equal(object({ ...entry, name: 'a.png', thumbnailUrl: 'https://cdn.example/a' }).thumb, 'https://cdn.example/a')
  t.equal(object({ ...entry, thumbnailUrl: '/p/a.webp' }).thumb, `${site}/p/a.webp`)
  const none = converter('/a b', { ...view, thumbnails: [] })
  t.equal(none({ ...entry, name: 'a.png' }).thumb, '')
})

void t.test('times are those of toISOString in any order', async (t) => {
  const times = [0, -1, 1, 951782399999, 951782400000, -62135596799999, 253402300799999, 1790000000123]
  for (let step = 0; step < 500; step++) times.push(1.6e12 + step * 86_399_999, 1.6e12 + step * 59_001)
  const wrong = times.filter((time) => wireTime(new Date(time)) !== new Date(time).toISOString())
  t.same(wrong, [])
})
