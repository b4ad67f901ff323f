/** Requests that LibreOffice sends to open, lock, save and close a document, as recorded. */
import { depth0, status, type Trace } from './trace.js'

const document = '/dav/libreoffice/letter.odt'
const xml = { 'content-type': 'application/xml', ...depth0 }

function propfind(...elements: readonly string[]): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<propfind xmlns="DAV:"><prop>${elements.join('')}</prop></propfind>`
}
const readOnly = '<IsReadOnly xmlns="http://ucb.openoffice.org/dav/props/"/>'

/** Recorded: a document is opened, changed, saved and closed. */
export const libreOffice: Trace = {
  client: 'LibreOffice',
  userAgent: 'LibreOffice 7.4.7.2 denylistedbackend/7.88.1 GnuTLS/3.7.9',
  folder: 'libreoffice',
  steps: [
    { request: `PUT ${document}`, body: 'a letter', answer: status(201) },
    { request: `OPTIONS ${document}`, anonymous: true, answer: { status: 200, headers: { allow: /\bLOCK\b/ } } },
    {
      request: `PROPFIND ${document}`,
      headers: xml,
      body: propfind('<resourcetype xmlns="DAV:"/>', readOnly, '<getcontenttype/>', '<supportedlock/>'),
      anonymous: true,
      answer: { status: 401, headers: { 'www-authenticate': /^Basic realm="[^"]+"/ } },
    },
    {
      request: `PROPFIND ${document}`,
      headers: xml,
      body: propfind('<resourcetype xmlns="DAV:"/>', readOnly, '<getcontenttype/>', '<supportedlock/>'),
      answer: {
        status: 207,
        properties: {
          [document]: {
            resourcetype: '',
            IsReadOnly: undefined,
            getcontenttype: 'application/vnd.oasis.opendocument.text',
            supportedlock: /<D:exclusive\/>.*<D:write\/>/,
          },
        },
      },
    },
    {
      request: `LOCK ${document}`,
      headers: { ...xml, timeout: 'Second-180' },
      body: '<?xml version="1.0" encoding="UTF-8"?>\n<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype><owner>LibreOffice - Anna</owner></lockinfo>',
      answer: { status: 200, headers: { 'lock-token': /^<urn:uuid:/ }, body: /<D:timeout>Second-180</ },
      keep: { token: 'lock-token' },
    },
    { request: `GET ${document}`, answer: { status: 200, headers: { etag: /^"/ }, body: 'a letter' } },
    {
      request: `PROPFIND ${document}`,
      headers: xml,
      body: propfind('<lockdiscovery/>'),
      answer: { status: 207, properties: { [document]: { lockdiscovery: /LibreOffice - Anna/ } } },
    },
    { request: 'HEAD /dav/libreoffice/', answer: status(200) },
    { request: `PUT ${document}`, headers: { if: '({token})' }, body: 'a longer letter', answer: status(204) },
    {
      request: `LOCK ${document}`,
      headers: { timeout: 'Second-180', if: '({token})' },
      answer: { status: 200, body: /<D:timeout>Second-180</ },
    },
    { request: `UNLOCK ${document}`, headers: { 'lock-token': '{token}' }, answer: status(204) },
    {
      request: `PROPFIND ${document}`,
      headers: xml,
      body: propfind('<lockdiscovery/>', '<getcontentlength/>'),
      answer: { status: 207, properties: { [document]: { lockdiscovery: '', getcontentlength: '15' } } },
    },
  ],
}
