/** Requests of media players, which read files by range and look for subtitles. */
import { depth1, propfind, status, xml, type Trace } from './trace.js'

const film = '/dav/players/film%20(2024).mkv'

/** Video players (VLC, Kodi, Infuse): they list the folder, read the size, and request ranges of the file. */
export const players: Trace = {
  client: 'Media players',
  userAgent: 'VLC/3.0.20 LibVLC/3.0.20',
  folder: 'players',
  steps: [
    { request: `PUT ${film}`, body: '0123456789', answer: status(201) },
    { request: 'PUT /dav/players/film%20(2024).srt', body: '1', answer: status(201) },
    {
      request: 'PROPFIND /dav/players/',
      headers: { ...xml, ...depth1 },
      body: propfind('displayname getcontentlength getcontenttype getlastmodified resourcetype'),
      answer: {
        status: 207,
        properties: { [film]: { getcontentlength: '10', getcontenttype: 'video/x-matroska', resourcetype: '' } },
      },
    },
    {
      request: `HEAD ${film}`,
      answer: {
        status: 200,
        headers: { 'content-length': '10', 'accept-ranges': 'bytes', 'content-type': 'video/x-matroska', etag: /^"/ },
        body: '',
      },
      keep: { etag: 'etag', modified: 'last-modified' },
    },
    {
      // Most begin with a range from the start to the end.
      request: `GET ${film}`,
      headers: { range: 'bytes=0-' },
      answer: { status: 206, headers: { 'content-range': 'bytes 0-9/10', 'content-length': '10' }, body: '0123456789' },
    },
    {
      request: `GET ${film}`,
      headers: { range: 'bytes=8-' },
      answer: { status: 206, headers: { 'content-range': 'bytes 8-9/10', 'content-length': '2' }, body: '89' },
    },
    {
      // The index at the end of the container.
      request: `GET ${film}`,
      headers: { range: 'bytes=-3' },
      answer: { status: 206, headers: { 'content-range': 'bytes 7-9/10' }, body: '789' },
    },
    {
      request: `GET ${film}`,
      headers: { range: 'bytes=10-' },
      answer: { status: 416, headers: { 'content-range': 'bytes */10' } },
    },
    {
      request: `GET ${film}`,
      headers: { range: 'bytes=2-4', 'if-range': '{etag}' },
      answer: { status: 206, body: '234' },
    },
    {
      request: `GET ${film}`,
      headers: { range: 'bytes=2-4', 'if-range': '"another"' },
      answer: { status: 200, headers: { 'content-length': '10' }, body: '0123456789' },
    },
    { request: `GET ${film}`, headers: { 'if-modified-since': '{modified}' }, answer: status(304) },
    {
      request: 'GET /dav/players/film%20(2024).en.srt', // guessed names of subtitles
      answer: status(404),
    },
  ],
}
