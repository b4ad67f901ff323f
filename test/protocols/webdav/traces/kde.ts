/** Requests of KIO, the file access of KDE: it lists, creates, moves, copies and deletes. */
import { depth0, depth1, propfind, status, xml, type Trace } from './trace.js'

const list = propfind(
  'creationdate getcontentlength displayname source getcontentlanguage getcontenttype getlastmodified getetag ' +
    'supportedlock lockdiscovery resourcetype',
)
const headers = { ...xml, 'accept-language': 'en-US,en', pragma: 'no-cache', 'cache-control': 'no-cache' }

/** The worker of KDE's file dialogs and of Dolphin. */
export const kde: Trace = {
  client: 'KDE kio',
  userAgent: 'Mozilla/5.0 (X11; Linux x86_64) KHTML/5.103.0 (like Gecko) Konqueror/5 KIO/5.103',
  folder: 'kde',
  steps: [
    {
      request: 'PROPFIND /dav/kde',
      headers: { ...headers, ...depth0 },
      body: list,
      answer: {
        status: 207,
        hrefs: ['/dav/kde/'],
        properties: { '/dav/kde/': { resourcetype: /collection/, supportedlock: /exclusive/, source: undefined } },
      },
    },
    { request: 'MKCOL /dav/kde/new', answer: status(201) },
    { request: 'MKCOL /dav/kde/new', answer: status(405) }, // it exists: kio asks for another name
    { request: 'MKCOL /dav/kde/none/new', answer: status(409) },
    { request: 'PROPFIND /dav/kde/new/a%23b.txt', headers: { ...headers, ...depth0 }, body: list, answer: status(404) },
    { request: 'PUT /dav/kde/new/a%23b.txt', body: 'tide', answer: status(201) },
    {
      request: 'PROPFIND /dav/kde/new/',
      headers: { ...headers, ...depth1 },
      body: list,
      answer: {
        status: 207,
        hrefs: ['/dav/kde/new/', '/dav/kde/new/a%23b.txt'],
        properties: {
          '/dav/kde/new/a%23b.txt': {
            getcontentlength: '4',
            getlastmodified: / GMT$/,
            displayname: 'a#b.txt',
            lockdiscovery: '',
          },
        },
      },
    },
    {
      request: 'MOVE /dav/kde/new/a%23b.txt',
      headers: { destination: '{dav}/kde/new/a%23b.txt.part', overwrite: 'F', depth: 'infinity' },
      answer: status(201),
    },
    {
      request: 'COPY /dav/kde/new',
      headers: { destination: '{dav}/kde/copy', overwrite: 'F', depth: 'infinity' },
      answer: status(201),
    },
    {
      request: 'COPY /dav/kde/new',
      headers: { destination: '{dav}/kde/copy', overwrite: 'F', depth: 'infinity' },
      answer: status(412),
    },
    { request: 'GET /dav/kde/copy/a%23b.txt.part', answer: { status: 200, body: 'tide' } },
    { request: 'DELETE /dav/kde/copy', answer: status(204) },
    { request: 'DELETE /dav/kde/copy', answer: status(404) },
  ],
}
