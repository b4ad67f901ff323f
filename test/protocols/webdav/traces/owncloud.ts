/** Requests of ownCloud and Nextcloud clients, which upload with modification times and checksums. */
import { depth0, depth1, status, xml, type Trace } from './trace.js'

const list =
  '<?xml version="1.0" ?><d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:resourcetype/>' +
  '<d:getlastmodified/><d:getcontentlength/><d:getetag/><oc:id/><oc:checksums/><oc:permissions/></d:prop></d:propfind>'
const photo = '/dav/owncloud/Photos/2024-07.jpg'
const modified = { 'x-oc-mtime': '1720000000' }

/** Additional requests of ownCloud and Nextcloud clients. */
export const ownCloud: Trace = {
  client: 'ownCloud and Nextcloud clients',
  userAgent: 'Mozilla/5.0 (Linux) mirall/3.16.0',
  folder: 'owncloud',
  steps: [
    { request: 'MKCOL /dav/owncloud/Photos', answer: status(201) },
    {
      request: `PUT ${photo}`,
      headers: {
        ...modified,
        'oc-checksum': 'SHA1:04e5f7e9e9b1ec9d0d5b9c1e0fdcb2d7b8b1c8a1',
        'oc-total-length': '6',
        'if-none-match': '*',
      },
      body: 'pixels',
      answer: status(400),
    },
    { request: `GET ${photo}`, answer: status(404) },
    {
      request: `PUT ${photo}`,
      headers: {
        ...modified,
        'oc-checksum': 'MD5:6b8ddf6cf5b1f1d6c7c2cf0b3cd2b3a3',
        'oc-total-length': '6',
      },
      body: 'pixels',
      answer: status(400),
    },
    {
      request: `PUT ${photo}`,
      headers: {
        ...modified,
        'oc-checksum': 'SHA1:09bc7b2dcc9a510f4ab3a40c47f7a4cb77954356',
        'oc-total-length': '6',
        'if-none-match': '*',
      },
      body: 'pixels',
      answer: {
        status: 201,
        headers: { 'x-oc-mtime': 'accepted', etag: /^"[^"]+"$/ },
      },
      keep: { etag: 'etag' },
    },
    {
      request: 'PROPFIND /dav/owncloud/Photos/',
      headers: { ...xml, ...depth1 },
      body: list,
      answer: {
        status: 207,
        hrefs: ['/dav/owncloud/Photos/', photo],
        properties: {
          [photo]: {
            getlastmodified: 'Wed, 03 Jul 2024 09:46:40 GMT',
            getcontentlength: '6',
            getetag: /^"/,
            id: undefined,
          },
        },
      },
    },
    { request: `PUT ${photo}`, headers: { ...modified, 'if-none-match': '*' }, body: 'other', answer: status(412) },
    {
      request: `PUT ${photo}`,
      headers: { 'x-oc-mtime': '1720000001', 'if-match': '{etag}', 'oc-checksum': 'ADLER32:0a2b0273' },
      body: 'edited',
      answer: { status: 204, headers: { 'x-oc-mtime': 'accepted' } },
    },
    {
      request: `PUT ${photo}`,
      headers: { 'x-oc-mtime': '1720000002', 'if-match': '{etag}' },
      body: 'lost update',
      answer: status(412),
    },
    {
      // A part of the old chunked protocol must not become a file.
      request: `PUT ${photo}-chunking-4711-2-0`,
      headers: { 'oc-chunked': '1', 'oc-total-length': '12' },
      body: 'part',
      answer: status(501),
    },
    {
      request: `PROPFIND ${photo}`,
      headers: { ...xml, ...depth0 },
      body: list,
      answer: { status: 207, properties: { [photo]: { getlastmodified: 'Wed, 03 Jul 2024 09:46:41 GMT' } } },
    },
    {
      request: 'MOVE /dav/owncloud/Photos',
      headers: { destination: '{dav}/owncloud/Pictures', overwrite: 'F' },
      answer: status(201),
    },
    {
      request: 'GET /dav/owncloud/Pictures/2024-07.jpg',
      answer: { status: 200, headers: { 'last-modified': 'Wed, 03 Jul 2024 09:46:41 GMT' }, body: 'edited' },
    },
    { request: 'DELETE /dav/owncloud/Pictures', answer: status(204) },
  ],
}
