/** Requests of davfs2, a FUSE mount: it locks a file before it writes, and sets the executable property. */
import { depth0, depth1, lockinfo, status, xml, type Trace } from './trace.js'

const apache = 'http://apache.org/dav/props/'
const list =
  '<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><getetag/><getcontentlength/><creationdate/>' +
  `<getlastmodified/><resourcetype/><executable xmlns="${apache}"/></prop></propfind>`

/** A FUSE mount over neon, which locks before it writes and sets the executable property. */
export const davfs2: Trace = {
  client: 'davfs2',
  userAgent: 'davfs2/1.6.1 neon/0.32.5',
  folder: 'davfs2',
  steps: [
    { request: 'OPTIONS /dav/davfs2/', answer: { status: 200, headers: { dav: /\b1\b.*\b2\b/ } } },
    {
      request: 'PROPFIND /dav/davfs2/',
      headers: { ...xml, ...depth1 },
      body: list,
      answer: { status: 207, properties: { '/dav/davfs2/': { resourcetype: /collection/ } } },
    },
    {
      request: 'LOCK /dav/davfs2/run.sh',
      headers: { ...xml, ...depth0, timeout: 'Second-1800' },
      body: lockinfo('root'),
      answer: {
        status: 201,
        headers: { 'lock-token': /^<urn:uuid:/ },
        body: /<D:depth>0<\/D:depth>.*root.*<D:timeout>Second-1800</,
      },
      keep: { token: 'lock-token' },
    },
    { request: 'HEAD /dav/davfs2/run.sh', answer: { status: 200, headers: { etag: /^"/, 'content-length': '0' } } },
    {
      request: 'PUT /dav/davfs2/run.sh',
      headers: { if: '<{dav}/davfs2/run.sh> ({token})' },
      body: '#!/bin/sh\n',
      answer: { status: 204, headers: { etag: /^"/ } },
      keep: { etag: 'etag' },
    },
    {
      request: 'PROPPATCH /dav/davfs2/run.sh',
      headers: { ...xml, if: '<{dav}/davfs2/run.sh> ({token})' },
      body:
        '<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:">' +
        `<D:set><D:prop><executable xmlns="${apache}">T</executable></D:prop></D:set></D:propertyupdate>`,
      answer: { status: 207, properties: { '/dav/davfs2/run.sh': { executable: '' } } },
    },
    {
      request: 'LOCK /dav/davfs2/run.sh',
      headers: { timeout: 'Second-1800', if: '<{dav}/davfs2/run.sh> ({token})' },
      answer: { status: 200, body: /<D:timeout>Second-1800</ },
    },
    { request: 'UNLOCK /dav/davfs2/run.sh', headers: { 'lock-token': '{token}' }, answer: status(204) },
    {
      request: 'PROPFIND /dav/davfs2/run.sh',
      headers: { ...xml, ...depth0 },
      body: list,
      answer: { status: 207, properties: { '/dav/davfs2/run.sh': { executable: 'T', getcontentlength: '10' } } },
    },
    // It requests a cached file again only if the file has changed.
    { request: 'GET /dav/davfs2/run.sh', headers: { 'if-none-match': '{etag}' }, answer: status(304) },
    {
      request: 'MOVE /dav/davfs2/run.sh',
      headers: { destination: '{dav}/davfs2/go.sh', overwrite: 'T' },
      answer: status(201),
    },
    { request: 'DELETE /dav/davfs2/go.sh', answer: status(204) },
  ],
}
