/** Requests that Windows sends to mount a drive and to copy, create, rename and delete files and folders on it. */
import { depth0, depth1, lockinfo, status, xml, type Step, type Trace } from './trace.js'

const name = "/dav/windows/Gr%c3%bc%c3%9fe%20%26%20Co's%20100%25%20(1).txt"
/** As the server writes it: with upper-case escapes and an escaped apostrophe. */
const href = '/dav/windows/Gr%C3%BC%C3%9Fe%20%26%20Co%27s%20100%25%20(1).txt'
const translate = { translate: 'f' }

function proppatch(properties: Readonly<Record<string, string>>): string {
  const elements = Object.entries(properties).map(([property, value]) => `<Z:${property}>${value}</Z:${property}>`)
  return (
    '<?xml version="1.0" encoding="utf-8" ?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:">' +
    `<D:set><D:prop>${elements.join('')}</D:prop></D:set></D:propertyupdate>`
  )
}

const times = {
  Win32CreationTime: 'Sat, 20 Jun 2020 07:39:29 GMT',
  Win32LastAccessTime: 'Sun, 21 Jun 2020 08:00:00 GMT',
  Win32LastModifiedTime: 'Fri, 19 Jun 2020 06:30:10 GMT',
}
const attributes = { ...times, Win32FileAttributes: '00000020' }

const mount: readonly Step[] = [
  {
    request: 'OPTIONS /',
    headers: translate,
    anonymous: true,
    answer: { status: 200, headers: { dav: /\b1\b.*\b2\b/, 'ms-author-via': 'DAV' } },
  },
  {
    request: 'OPTIONS /dav/windows',
    headers: translate,
    anonymous: true,
    answer: {
      status: 200,
      headers: { dav: /\b1\b.*\b2\b/, 'ms-author-via': 'DAV', allow: /PROPFIND.*LOCK/, 'content-length': '0' },
    },
  },
  {
    request: 'PROPFIND /dav/windows',
    headers: { ...translate, ...depth0, 'content-length': '0' },
    anonymous: true,
    answer: { status: 401, headers: { 'www-authenticate': /^Basic realm="/ } },
  },
  {
    request: 'PROPFIND /dav/windows',
    headers: { ...translate, ...depth0, 'content-length': '0' },
    answer: {
      status: 207,
      hrefs: ['/dav/windows/'],
      properties: {
        '/dav/windows/': {
          resourcetype: /collection/,
          creationdate: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/,
          getlastmodified: / GMT$/,
          getcontentlength: undefined,
        },
      },
    },
  },
  {
    request: 'PROPFIND /dav/windows/desktop.ini',
    headers: { ...translate, ...depth0, 'content-length': '0' },
    answer: status(404),
  },
]

const copyIn: readonly Step[] = [
  { request: `PROPFIND ${name}`, headers: { ...depth0, 'content-length': '0' }, answer: status(404) },
  { request: `PUT ${name}`, headers: { ...translate, 'content-length': '0' }, answer: status(201) },
  {
    request: `LOCK ${name}`,
    headers: { ...translate, ...xml, timeout: 'Second-3600' },
    body: lockinfo('<D:href>DESKTOP-1\\anna</D:href>'),
    answer: {
      status: 200,
      headers: { 'lock-token': /^<urn:uuid:[0-9a-f-]{36}>$/ },
      body: /<D:timeout>Second-\d+<\/D:timeout>.*<D:locktoken><D:href>urn:uuid:/,
    },
    keep: { token: 'lock-token' },
  },
  {
    request: `PROPPATCH ${name}`,
    headers: { ...translate, ...xml, if: '({token})' },
    body: proppatch({ ...attributes, Win32LastModifiedTime: 'Mon, 22 Jun 2020 00:00:00 GMT' }),
    answer: {
      status: 207,
      hrefs: [href],
      properties: { [href]: { Win32CreationTime: '', Win32LastModifiedTime: '', Win32FileAttributes: '' } },
    },
  },
  { request: `HEAD ${name}`, headers: translate, answer: { status: 200, headers: { 'content-length': '0' } } },
  { request: `PUT ${name}`, headers: { ...translate, if: '({token})' }, body: 'contents', answer: status(204) },
  {
    request: `PROPPATCH ${name}`,
    headers: { ...translate, ...xml, if: '({token})' },
    body: proppatch(attributes),
    answer: { status: 207, properties: { [href]: { Win32LastModifiedTime: '' } } },
  },
  { request: `UNLOCK ${name}`, headers: { ...translate, 'lock-token': '{token}' }, answer: status(204) },
  {
    request: 'PROPFIND /dav/windows',
    headers: { ...translate, ...depth1, 'content-length': '0' },
    answer: {
      status: 207,
      hrefs: ['/dav/windows/', href],
      properties: {
        [href]: {
          ...attributes,
          Win32LastModifiedTime: undefined, // told by the name of WebDAV's own
          getlastmodified: times.Win32LastModifiedTime,
          getcontentlength: '8',
          displayname: "Grüße & Co's 100% (1).txt",
        },
      },
    },
  },
  {
    request: `GET ${name}`,
    headers: translate,
    answer: { status: 200, headers: { 'last-modified': times.Win32LastModifiedTime }, body: 'contents' },
  },
]

/** Windows 10 creates a file: LOCK creates the empty file. */
const lockFirst: readonly Step[] = [
  {
    request: 'LOCK /dav/windows/new.txt',
    headers: { ...translate, ...xml, timeout: 'Second-3600' },
    body: lockinfo('<D:href>DESKTOP-1\\anna</D:href>'),
    answer: { status: 201, headers: { 'lock-token': /^<urn:uuid:/ } },
    keep: { token: 'lock-token' },
  },
  {
    request: 'PUT /dav/windows/new.txt',
    headers: { ...translate, 'content-length': '0', if: '({token})' },
    answer: status(204),
  },
  { request: 'HEAD /dav/windows/new.txt', headers: translate, answer: status(200) },
  { request: 'PUT /dav/windows/new.txt', headers: { ...translate, if: '({token})' }, body: 'x', answer: status(204) },
  { request: 'UNLOCK /dav/windows/new.txt', headers: { 'lock-token': '{token}' }, answer: status(204) },
]

/** What is not done on a share, in which nothing is renamed or removed: see `windowsOnShare`. */
const folders: readonly Step[] = [
  { request: 'PROPFIND /dav/windows/New%20folder', headers: { ...depth0, 'content-length': '0' }, answer: status(404) },
  { request: 'MKCOL /dav/windows/New%20folder', headers: { ...translate, 'content-length': '0' }, answer: status(201) },
  {
    request: 'PROPPATCH /dav/windows/New%20folder',
    headers: { ...translate, ...xml },
    body: proppatch({ ...times, Win32FileAttributes: '00000010' }),
    answer: { status: 207, properties: { '/dav/windows/New%20folder/': { Win32CreationTime: '' } } },
  },
  {
    request: 'MOVE /dav/windows/New%20folder',
    headers: { ...translate, overwrite: 'F', destination: '{dav}/windows/Photos%20%232' },
    answer: status(201),
  },
  {
    request: 'PROPFIND /dav/windows/Photos%20%232',
    headers: { ...depth0, 'content-length': '0' },
    answer: {
      status: 207,
      properties: {
        '/dav/windows/Photos%20%232/': { Win32CreationTime: times.Win32CreationTime, Win32FileAttributes: '00000010' },
      },
    },
  },
  {
    request: `MOVE ${name}`,
    headers: { ...translate, overwrite: 'F', destination: '{dav}/windows/new.txt' },
    answer: status(412),
  },
  {
    request: `MOVE ${name}`,
    headers: { ...translate, overwrite: 'T', destination: '{dav}/windows/new.txt' },
    answer: status(204),
  },
  {
    request: 'PROPFIND /dav/windows/new.txt',
    headers: { ...depth0, 'content-length': '0' },
    answer: {
      status: 207,
      properties: { '/dav/windows/new.txt': { Win32CreationTime: times.Win32CreationTime, getcontentlength: '8' } },
    },
  },
  { request: 'DELETE /dav/windows/Photos%20%232', headers: translate, answer: status(204) },
  { request: 'DELETE /dav/windows/new.txt', headers: translate, answer: status(204) },
]

/** The WebDAV redirector of Windows: a drive letter, and Explorer. */
export const windows: Trace = {
  client: 'Windows WebClient',
  userAgent: 'Microsoft-WebDAV-MiniRedir/10.0.19045',
  folder: 'windows',
  steps: [...mount, ...copyIn, ...lockFirst, ...folders],
}

/** Explorer asks the folders above the one that is mounted. */
const parents: readonly Step[] = ['/dav', '/dav/@s'].map((folder) => ({
  request: `PROPFIND ${folder}`,
  headers: { ...translate, ...depth0, 'content-length': '0' },
  answer: { status: 207, hrefs: [`${folder}/`], properties: { [`${folder}/`]: { resourcetype: /collection/ } } },
}))

/** A new folder gets its times, and the name that it has been given first stays: a share renames nothing. */
const newFolder: readonly Step[] = [
  ...folders.slice(0, 3),
  {
    request: 'MOVE /dav/windows/New%20folder',
    headers: { ...translate, overwrite: 'F', destination: '{dav}/windows/Photos%20%232' },
    answer: status(403),
  },
  { request: `DELETE ${name}`, headers: translate, answer: status(403) },
]

/**
 * Windows on a drive at the path `drive`: a share that visitors may also change, and which is empty before. `{dav}`
 * stands for the URL of the drive.
 */
export function windowsOnShare(drive: string): Pick<Trace, 'userAgent' | 'steps'> {
  const steps = [...parents, ...mount, ...copyIn, ...lockFirst, ...newFolder]
  return { userAgent: windows.userAgent, steps: steps.map((step) => moved(step, drive)) }
}

/** With the path of the drive in all texts. */
function moved<Part>(part: Part, drive: string): Part {
  if (typeof part === 'string')
    return part.replaceAll('{dav}/windows', '{dav}').replaceAll('/dav/windows', drive) as Part
  if (typeof part !== 'object' || part === null || part instanceof RegExp) return part
  if (Array.isArray(part)) return part.map((each: unknown) => moved(each, drive)) as Part
  const entries = Object.entries(part).map(([key, value]) => [moved(key, drive), moved(value as unknown, drive)])
  return Object.fromEntries(entries) as Part
}
