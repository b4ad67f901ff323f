/**
 * Requests that Finder sends to connect, write, list, read and rename, on servers that store or reject system files.
 */
import { depth0, depth1, lockinfo, propfind, status, xml, type Step, type Trace } from './trace.js'

const stat = propfind('getlastmodified getcontentlength creationdate resourcetype')
const list = propfind(
  'getlastmodified getcontentlength creationdate resourcetype',
  '<A:appledoubleheader xmlns:A="http://www.apple.com/webdav_fs/props/"/>',
)
const userAgent = 'WebDAVFS/3.0.0 (03008000) Darwin/23.6.0 (arm64)'

/** Finder writes a file: it creates an empty file, locks it, writes it in chunks, checks it and unlocks it. */
function write(path: string, content: string): readonly Step[] {
  return [
    { request: `PROPFIND ${path}`, headers: { ...xml, ...depth0 }, body: stat, answer: status(404) },
    { request: `PUT ${path}`, headers: { 'content-length': '0' }, answer: status(201) },
    {
      request: `LOCK ${path}`,
      headers: { ...xml, ...depth0, timeout: 'Second-600' },
      body: lockinfo('<D:href>http://www.apple.com/webdav_fs/</D:href>'),
      answer: { status: 200, headers: { 'lock-token': /^<urn:uuid:/ }, body: /<D:timeout>Second-600</ },
      keep: { token: 'lock-token' },
    },
    {
      request: `PUT ${path}`,
      headers: {
        'transfer-encoding': 'chunked',
        'x-expected-entity-length': String(Buffer.byteLength(content)),
        if: '({token})',
      },
      body: content,
      answer: { status: 204, headers: { etag: /^"/ } },
    },
    {
      request: `PROPFIND ${path}`,
      headers: { ...xml, ...depth0 },
      body: stat,
      answer: {
        status: 207,
        properties: { [path]: { getcontentlength: String(Buffer.byteLength(content)), resourcetype: '' } },
      },
    },
    {
      request: `LOCK ${path}`,
      headers: { timeout: 'Second-600', if: '({token})' },
      answer: { status: 200, body: /<D:timeout>Second-600</ },
    },
    { request: `UNLOCK ${path}`, headers: { 'lock-token': '{token}' }, answer: status(204) },
  ]
}

/** macOS: Connect to Server, a file with its AppleDouble companion, a rename, the bin. */
export const finder: Trace = {
  client: 'macOS Finder',
  userAgent,
  folder: 'finder',
  steps: [
    {
      // Without class 2 the volume is read-only.
      request: 'OPTIONS /dav/finder/',
      answer: { status: 200, headers: { dav: /\b2\b/, allow: /\bLOCK\b/ } },
    },
    {
      request: 'PROPFIND /dav/finder/',
      headers: { ...xml, ...depth0 },
      body: propfind('quota-available-bytes quota-used-bytes quota quotaused'),
      answer: {
        status: 207,
        properties: {
          '/dav/finder/': { 'quota-available-bytes': /^\d+$/, 'quota-used-bytes': /^\d+$/, quota: undefined },
        },
      },
    },
    {
      request: 'PROPFIND /dav/finder/',
      headers: { ...xml, ...depth0 },
      body: stat,
      answer: {
        status: 207,
        properties: { '/dav/finder/': { resourcetype: /collection/, creationdate: /Z$/, getlastmodified: /GMT$/ } },
      },
    },
    { request: 'PROPFIND /dav/finder/._.', headers: { ...xml, ...depth0 }, body: stat, answer: status(404) },
    { request: 'PROPFIND /dav/finder/.hidden', headers: { ...xml, ...depth0 }, body: stat, answer: status(404) },
    ...write('/dav/finder/r%C3%A9sum%C3%A9.txt', 'a file'),
    ...write('/dav/finder/._r%C3%A9sum%C3%A9.txt', '\u0000\u0005\u0016\u0007 AppleDouble'),
    ...write('/dav/finder/.DS_Store', 'Bud1'),
    {
      request: 'PROPFIND /dav/finder/',
      headers: { ...xml, ...depth1 },
      body: list,
      answer: {
        status: 207,
        hrefs: [
          '/dav/finder/',
          '/dav/finder/r%C3%A9sum%C3%A9.txt',
          '/dav/finder/._r%C3%A9sum%C3%A9.txt',
          '/dav/finder/.DS_Store',
        ],
        properties: { '/dav/finder/r%C3%A9sum%C3%A9.txt': { appledoubleheader: undefined } },
      },
    },
    {
      request: 'GET /dav/finder/r%C3%A9sum%C3%A9.txt',
      headers: { range: 'bytes=0-3' },
      answer: { status: 206, headers: { 'content-range': 'bytes 0-3/6' }, body: 'a fi' },
    },
    {
      // In decomposed form, as the file system of macOS stores it: this is another name.
      request: 'PROPFIND /dav/finder/re%CC%81sume%CC%81.txt',
      headers: { ...xml, ...depth0 },
      body: stat,
      answer: status(404),
    },
    {
      request: 'MOVE /dav/finder/r%C3%A9sum%C3%A9.txt',
      headers: { destination: '{dav}/finder/cv.txt', overwrite: 'F' },
      answer: status(201),
    },
    {
      request: 'MOVE /dav/finder/._r%C3%A9sum%C3%A9.txt',
      headers: { destination: '{dav}/finder/._cv.txt', overwrite: 'F' },
      answer: status(201),
    },
    { request: 'DELETE /dav/finder/._cv.txt', answer: status(204) },
    { request: 'DELETE /dav/finder/cv.txt', answer: status(204) },
    { request: 'DELETE /dav/finder/.DS_Store', answer: status(204) },
  ],
}

/** The Finder on a server that rejects system files: these are rejected and missing, and the file itself is stored. */
export const finderWithoutSideFiles: Trace = {
  client: 'macOS Finder, system files refused',
  userAgent,
  folder: 'finder-plain',
  settings: { ignore_system_files: 'true' },
  steps: [
    ...write('/dav/finder-plain/photo.jpg', 'pixels'),
    {
      request: 'PROPFIND /dav/finder-plain/._photo.jpg',
      headers: { ...xml, ...depth0 },
      body: stat,
      answer: status(404),
    },
    { request: 'PUT /dav/finder-plain/._photo.jpg', headers: { 'content-length': '0' }, answer: status(403) },
    {
      request: 'LOCK /dav/finder-plain/._photo.jpg',
      headers: { ...xml, ...depth0, timeout: 'Second-600' },
      body: lockinfo('<D:href>http://www.apple.com/webdav_fs/</D:href>'),
      answer: status(403),
    },
    {
      request: 'PUT /dav/finder-plain/.DS_Store',
      headers: { 'transfer-encoding': 'chunked', 'x-expected-entity-length': '4' },
      body: 'Bud1',
      answer: status(403),
    },
    { request: 'MKCOL /dav/finder-plain/._folder', answer: status(403) },
    {
      request: 'MOVE /dav/finder-plain/photo.jpg',
      headers: { destination: '{dav}/finder-plain/._photo.jpg', overwrite: 'F' },
      answer: status(403),
    },
    { request: 'GET /dav/finder-plain/._photo.jpg', answer: status(404) },
    { request: 'DELETE /dav/finder-plain/._photo.jpg', answer: status(404) },
    {
      request: 'PROPFIND /dav/finder-plain/',
      headers: { ...xml, ...depth1 },
      body: stat,
      answer: { status: 207, hrefs: ['/dav/finder-plain/', '/dav/finder-plain/photo.jpg'] },
    },
  ],
}
