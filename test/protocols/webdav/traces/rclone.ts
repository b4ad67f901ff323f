/** Requests of rclone, which creates folders, uploads with modification times, changes these, and moves files. */
import { depth0, depth1, status, xml, type Trace } from './trace.js'

const list =
  '<?xml version="1.0"?><d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns"><d:prop>' +
  '<d:displayname/><d:getlastmodified/><d:getcontentlength/><d:resourcetype/><d:getcontenttype/><oc:checksums/><oc:permissions/></d:prop></d:propfind>'

/** `rclone copy`, and a second run that sets the time of unchanged files. */
export const rclone: Trace = {
  client: 'rclone',
  userAgent: 'rclone/v1.60.1',
  folder: 'rclone',
  steps: [
    { request: 'PROPFIND /dav/rclone/a', headers: { ...xml, ...depth0 }, body: list, answer: status(404) },
    { request: 'PROPFIND /dav/rclone/a/', headers: { ...xml, ...depth1 }, body: list, answer: status(404) },
    { request: 'MKCOL /dav/rclone/a/b/', answer: status(409) }, // then it makes the parents
    { request: 'MKCOL /dav/rclone/a/', answer: status(201) },
    { request: 'MKCOL /dav/rclone/a/b/', answer: status(201) },
    { request: 'MKCOL /dav/rclone/a/b/', answer: status(405) },
    {
      request: 'PUT /dav/rclone/a/b/x%2By%20%5B1%5D.txt',
      headers: { 'x-oc-mtime': '1500000000.25', 'oc-checksum': 'SHA1:17c772d62d6f108c21dedfe0d2ae7f495a8598fa' },
      body: 'tide',
      answer: { status: 201, headers: { 'x-oc-mtime': 'accepted' } },
    },
    {
      request: 'PROPFIND /dav/rclone/a/b/',
      headers: { ...xml, ...depth1 },
      body: list,
      answer: {
        status: 207,
        hrefs: ['/dav/rclone/a/b/', '/dav/rclone/a/b/x%2By%20%5B1%5D.txt'],
        properties: {
          '/dav/rclone/a/b/x%2By%20%5B1%5D.txt': {
            getlastmodified: 'Fri, 14 Jul 2017 02:40:00 GMT',
            getcontentlength: '4',
          },
        },
      },
    },
    {
      request: 'PROPPATCH /dav/rclone/a/b/x%2By%20%5B1%5D.txt',
      headers: xml,
      body: '<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><lastmodified xmlns="DAV:">1600000000</lastmodified></D:prop></D:set></D:propertyupdate>',
      answer: { status: 207, properties: { '/dav/rclone/a/b/x%2By%20%5B1%5D.txt': { lastmodified: '' } } },
    },
    {
      request: 'HEAD /dav/rclone/a/b/x%2By%20%5B1%5D.txt',
      answer: { status: 200, headers: { 'last-modified': 'Sun, 13 Sep 2020 12:26:40 GMT' } },
    },
    {
      request: 'MOVE /dav/rclone/a/b/x%2By%20%5B1%5D.txt',
      headers: { destination: '{dav}/rclone/a/moved.txt', overwrite: 'T', 'x-oc-mtime': '1600000000' },
      answer: status(201),
    },
    {
      request: 'PROPFIND /dav/rclone/',
      headers: { ...xml, ...depth0 },
      body: '<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:quota-available-bytes/><D:quota-used-bytes/></D:prop></D:propfind>',
      answer: { status: 207, properties: { '/dav/rclone/': { 'quota-available-bytes': /^\d+$/ } } },
    },
    { request: 'DELETE /dav/rclone/a/b/', answer: status(204) },
    { request: 'DELETE /dav/rclone/a/moved.txt', answer: status(204) },
  ],
}
