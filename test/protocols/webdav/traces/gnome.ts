/** Requests of gvfs, the file system of GNOME, as recorded. */
import { depth0, depth1, status, type Expected, type Step, type Trace } from './trace.js'

const xml = { 'content-type': 'application/xml' }
const kind =
  '<?xml version="1.0" encoding="utf-8" ?>\n <D:propfind xmlns:D="DAV:">\n  <D:prop>\n<D:resourcetype/>\n<D:getcontentlength/>\n  </D:prop>\n </D:propfind>'
const stat =
  '<?xml version="1.0" encoding="utf-8" ?>\n <D:propfind xmlns:D="DAV:">\n  <D:prop>\n<D:creationdate/>\n<D:displayname/>\n<D:getcontentlength/>\n<D:getcontenttype/>\n<D:getetag/>\n<D:getlastmodified/>\n<D:resourcetype/>\n  </D:prop>\n </D:propfind>'
const redirects = { 'apply-to-redirect-ref': 'T' }

const file = '/dav/gnome/fold%20er/%C3%A4%20b.txt'

function asks(path: string, answer: Expected): readonly Step[] {
  return [
    { request: `PROPFIND ${path}`, headers: { ...xml, ...depth0, ...redirects }, body: stat, answer },
    { request: `PROPFIND ${path}`, headers: { ...xml, ...depth0 }, body: kind, answer: status(answer.status) },
  ]
}

/** gvfs, recorded: mount, mkdir, copy, cat, rename, save, remove. */
export const gnome: Trace = {
  client: 'GNOME gvfs',
  userAgent: 'gvfs/1.50.3',
  folder: 'gnome',
  steps: [
    {
      request: 'OPTIONS /dav/gnome',
      anonymous: true,
      answer: { status: 200, headers: { dav: /\b1\b/, allow: /\bPROPFIND\b/ } },
    },
    {
      request: 'PROPFIND /dav/gnome',
      headers: { ...xml, ...depth1 },
      body: kind,
      anonymous: true,
      answer: { status: 401, headers: { 'www-authenticate': /^Basic realm="/ } },
    },
    {
      request: 'PROPFIND /dav/gnome',
      headers: { ...xml, ...depth1 },
      body: kind,
      answer: { status: 207, hrefs: ['/dav/gnome/'], properties: { '/dav/gnome/': { resourcetype: /collection/ } } },
    },
    { request: 'OPTIONS /', answer: status(200) },
    { request: 'MKCOL /dav/gnome/fold%20er/', answer: status(201) },
    ...asks(file, status(404)),
    { request: `PUT ${file}`, headers: { overwrite: 'T' }, body: 'hello\n', answer: status(201) },
    {
      request: 'PROPFIND /dav/gnome/fold%20er/',
      headers: { ...xml, ...depth1, ...redirects },
      body: stat,
      answer: {
        status: 207,
        hrefs: ['/dav/gnome/fold%20er/', file],
        properties: {
          [file]: {
            displayname: 'ä b.txt',
            getcontentlength: '6',
            getcontenttype: /^text\/plain/,
            getetag: /^"[^"]+"$/,
            creationdate: /Z$/,
            resourcetype: '',
          },
        },
      },
    },
    { request: `GET ${file}`, answer: { status: 200, headers: { 'content-length': '6' }, body: 'hello\n' } },
    {
      request: `MOVE ${file}`,
      headers: { destination: '{dav}/gnome/fold%20er/c.txt', overwrite: 'F' },
      answer: status(201),
    },
    ...asks(file, status(404)),
    {
      request: 'COPY /dav/gnome/fold%20er/c.txt',
      headers: { destination: '{dav}/gnome/fold%20er/d.txt', overwrite: 'T' },
      answer: status(201),
    },
    {
      request: 'MOVE /dav/gnome/fold%20er/d.txt',
      headers: { destination: '{dav}/gnome/fold%20er/c.txt', overwrite: 'T' },
      answer: status(204),
    },
    { request: 'PUT /dav/gnome/fold%20er/c.txt', body: 'more\n', answer: { status: 204, headers: { etag: /^"/ } } },
    {
      request: 'PROPFIND /dav/gnome',
      headers: { ...xml, ...depth0 },
      body: '<?xml version="1.0" encoding="utf-8" ?>\n <D:propfind xmlns:D="DAV:">\n  <D:prop>\n<D:quota-available-bytes/>\n<D:quota-used-bytes/>\n  </D:prop>\n </D:propfind>',
      answer: {
        status: 207,
        properties: { '/dav/gnome/': { 'quota-available-bytes': /^\d+$/, 'quota-used-bytes': /^\d+$/ } },
      },
    },
    { request: 'DELETE /dav/gnome/fold%20er/c.txt', answer: status(204) },
    { request: 'DELETE /dav/gnome/fold%20er', answer: status(204) },
  ],
}
