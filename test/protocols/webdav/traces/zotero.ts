/** Requests that Zotero sends to verify a server and to store an attachment. */
import { depth0, status, type Trace } from './trace.js'

const xml = { 'content-type': 'text/xml; charset=utf-8', ...depth0 }
const size = "<propfind xmlns='DAV:'><prop><getcontentlength/></prop></propfind>"
const properties =
  '<properties version="1"><mtime>1600000000000</mtime><hash>0123456789abcdef0123456789abcdef</hash></properties>'

/** "Verify Server", then one attachment. */
export const zotero: Trace = {
  client: 'Zotero',
  userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Zotero/7.0.0',
  folder: 'sync',
  steps: [
    { request: 'OPTIONS /dav/sync/zotero/', answer: { status: 200, headers: { dav: /\b1\b/ } } },
    { request: 'PROPFIND /dav/sync/zotero/', headers: xml, body: size, answer: status(404) },
    // The parent of the folder exists, so it can be created.
    {
      request: 'PROPFIND /dav/sync/',
      headers: xml,
      body: size,
      answer: { status: 207, hrefs: ['/dav/sync/'], properties: { '/dav/sync/': { getcontentlength: undefined } } },
    },
    { request: 'MKCOL /dav/sync/zotero/', answer: status(201) },
    { request: 'PROPFIND /dav/sync/zotero/', headers: xml, body: size, answer: status(207) },
    { request: 'GET /dav/sync/zotero/nonexistent.prop', answer: status(404) },
    { request: 'PUT /dav/sync/zotero/zotero-test-file.prop', body: ' ', answer: status(201) },
    { request: 'GET /dav/sync/zotero/zotero-test-file.prop', answer: { status: 200, body: ' ' } },
    { request: 'DELETE /dav/sync/zotero/zotero-test-file.prop', answer: status(204) },
    { request: 'GET /dav/sync/zotero/ABCD2345.prop', answer: status(404) },
    { request: 'DELETE /dav/sync/zotero/ABCD2345.prop', answer: status(404) },
    {
      request: 'PUT /dav/sync/zotero/ABCD2345.zip',
      headers: { 'content-type': 'application/zip' },
      body: 'PK zipped',
      answer: status(201),
    },
    {
      request: 'PUT /dav/sync/zotero/ABCD2345.prop',
      headers: { 'content-type': 'text/xml' },
      body: properties,
      answer: status(201),
    },
    { request: 'GET /dav/sync/zotero/ABCD2345.prop', answer: { status: 200, body: properties } },
    {
      request: 'GET /dav/sync/zotero/ABCD2345.zip',
      answer: { status: 200, headers: { 'content-length': '9' }, body: 'PK zipped' },
    },
    { request: 'PUT /dav/sync/zotero/lastsync.txt', body: ' ', answer: status(201) },
    { request: 'DELETE /dav/sync/zotero/ABCD2345.zip', answer: status(204) },
    { request: 'DELETE /dav/sync/zotero/ABCD2345.prop', answer: status(204) },
  ],
}
