/** Requests that Joplin sends to synchronize notes: folders, locks, and attached files. */
import { depth0, depth1, status, type Step, type Trace } from './trace.js'

/** A value that is not an entity tag, to bypass the cache of the phone; sent with all methods except GET and HEAD. */
const uncached = { 'if-none-match': 'JoplinIgnore-42130' }
const xml = { 'content-type': 'text/xml', ...uncached }
const list =
  '<?xml version="1.0" encoding="UTF-8"?>\n<d:propfind xmlns:d="DAV:">\n<d:prop xmlns:oc="http://owncloud.org/ns">\n' +
  '<d:getlastmodified/><d:resourcetype/>\n</d:prop>\n</d:propfind>'

function mkcol(folder: string): readonly Step[] {
  return [
    { request: `MKCOL /dav/joplin/${folder}/`, headers: uncached, answer: status(201) },
    { request: `MKCOL /dav/joplin/${folder}/`, headers: uncached, answer: status(405) }, // else it gives up
  ]
}

export const joplin: Trace = {
  client: 'Joplin',
  userAgent: 'Joplin/1.0',
  folder: 'joplin',
  steps: [
    {
      request: 'PROPFIND /dav/joplin/',
      headers: { ...xml, ...depth0 },
      body: list,
      answer: {
        status: 207,
        hrefs: ['/dav/joplin/'],
        properties: { '/dav/joplin/': { getlastmodified: / GMT$/, resourcetype: /collection/ } },
      },
    },
    { request: 'PROPFIND /dav/joplin/info.json', headers: { ...xml, ...depth0 }, body: list, answer: status(404) },
    { request: 'GET /dav/joplin/info.json', answer: status(404) },
    ...['locks', '.resource', '.sync', 'temp'].flatMap(mkcol),
    {
      // It also checks for the folder to find out why a PUT failed.
      request: 'PUT /dav/joplin/none/1.md',
      headers: uncached,
      body: 'x',
      answer: status(409),
    },
    { request: 'PUT /dav/joplin/info.json', headers: uncached, body: '{"version":3}', answer: status(201) },
    { request: 'PUT /dav/joplin/info.json', headers: uncached, body: '{"version":4}', answer: status(204) },
    {
      request: 'PUT /dav/joplin/locks/2_1_a.json',
      headers: uncached,
      body: '{"type":1}',
      answer: status(201),
    },
    {
      request: 'PROPFIND /dav/joplin/locks/',
      headers: { ...xml, ...depth1 },
      body: list,
      answer: {
        status: 207,
        hrefs: ['/dav/joplin/locks/', '/dav/joplin/locks/2_1_a.json'],
        properties: { '/dav/joplin/locks/2_1_a.json': { resourcetype: '', getlastmodified: / GMT$/ } },
      },
    },
    { request: 'DELETE /dav/joplin/locks/2_1_a.json', headers: uncached, answer: status(204) },
    { request: 'DELETE /dav/joplin/locks/2_1_a.json', headers: uncached, answer: status(404) },
    {
      request: 'PUT /dav/joplin/.resource/0123456789abcdef0123456789abcdef',
      headers: uncached,
      body: 'picture',
      answer: status(201),
    },
    {
      request: 'GET /dav/joplin/.resource/0123456789abcdef0123456789abcdef',
      answer: { status: 200, headers: { 'content-length': '7' }, body: 'picture' },
    },
  ],
}
