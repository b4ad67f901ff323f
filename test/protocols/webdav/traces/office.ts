/** Requests that Microsoft Office sends to edit a document, by its own WebDAV client and on a mounted drive. */
import { depth0, lockinfo, propfind, status, xml, type Step, type Trace } from './trace.js'

const document = '/dav/office/Q3%20report.docx'

/** Microsoft Office opens, locks and saves a document, while another user gets it read-only. */
export const office: Trace = {
  client: 'Microsoft Office',
  userAgent: 'Microsoft Office Word 2014',
  folder: 'office',
  steps: [
    { request: `PUT ${document}`, body: 'draft', answer: status(201) },
    {
      request: 'OPTIONS /dav/office/',
      headers: { 'user-agent': 'Microsoft Office Protocol Discovery', 'x-office-major-version': '16', translate: 'f' },
      anonymous: true,
      answer: { status: 200, headers: { 'ms-author-via': 'DAV', dav: /\b2\b/, allow: /\bLOCK\b.*\bUNLOCK\b/ } },
    },
    {
      request: `HEAD ${document}`,
      headers: { 'user-agent': 'Microsoft Office Existence Discovery' },
      answer: { status: 200, headers: { 'content-length': '5', etag: /^"/ } },
    },
    {
      request: `LOCK ${document}`,
      headers: { ...xml, ...depth0, timeout: 'Second-3600', 'x-office-major-version': '16' },
      body: lockinfo('Anna Example'),
      answer: {
        status: 200,
        headers: { 'lock-token': /^<urn:uuid:/, 'content-type': /xml/ },
        body: /<D:timeout>Second-3600<.*<D:locktoken>/,
      },
      keep: { token: 'lock-token' },
    },
    {
      request: `GET ${document}`,
      headers: { translate: 'f' },
      answer: { status: 200, headers: { etag: /^"/, 'content-type': /wordprocessingml/ }, body: 'draft' },
      keep: { etag: 'etag' },
    },
    {
      request: `PROPFIND ${document}`,
      headers: { ...xml, ...depth0 },
      body: propfind('lockdiscovery supportedlock getlastmodified'),
      answer: {
        status: 207,
        properties: {
          [document]: { lockdiscovery: /Anna Example/, supportedlock: /<D:exclusive\/>.*<D:write\/>/ },
        },
      },
    },
    // The other user reads the owner of the lock by PROPFIND.
    {
      request: `LOCK ${document}`,
      headers: { ...xml, ...depth0, timeout: 'Second-3600' },
      body: lockinfo('Ben Example'),
      answer: { status: 423, body: /no-conflicting-lock/ },
    },
    { request: `PUT ${document}`, body: 'mine', answer: { status: 423, body: /lock-token-submitted/ } },
    // Half an hour later.
    {
      request: `LOCK ${document}`,
      headers: { timeout: 'Second-3600', if: '({token})' },
      answer: { status: 200, headers: { 'lock-token': undefined }, body: /Anna Example.*<D:timeout>Second-3600</ },
    },
    {
      request: `PUT ${document}`,
      headers: { if: '({token})' },
      body: 'final',
      answer: { status: 204, headers: { etag: /^"/ } },
    },
    { request: `GET ${document}`, headers: { 'if-none-match': '{etag}' }, answer: { status: 200, body: 'final' } },
    { request: `UNLOCK ${document}`, headers: { 'lock-token': '{token}' }, answer: status(204) },
    {
      request: `LOCK ${document}`,
      headers: { ...xml, ...depth0, timeout: 'Second-3600' },
      body: lockinfo('Ben Example'),
      answer: status(200),
      keep: { token: 'lock-token' },
    },
    { request: `UNLOCK ${document}`, headers: { 'lock-token': '{token}' }, answer: status(204) },
  ],
}

const saved = '/dav/saving/plan.docx'

/**
 * On a mounted drive, Office writes a temporary file, renames the old file, and renames the temporary file to its name.
 */
const byRename: readonly Step[] = [
  { request: `PUT ${saved}`, body: 'old', answer: status(201) },
  { request: 'PUT /dav/saving/~%24plan.docx', body: 'owner file', answer: status(201) },
  { request: 'PUT /dav/saving/~WRD0001.tmp', headers: { 'content-length': '0' }, answer: status(201) },
  {
    request: 'LOCK /dav/saving/~WRD0001.tmp',
    headers: { ...xml, timeout: 'Second-3600' },
    body: lockinfo('Anna Example'),
    answer: status(200),
    keep: { temporary: 'lock-token' },
  },
  { request: 'PUT /dav/saving/~WRD0001.tmp', headers: { if: '({temporary})' }, body: 'new', answer: status(204) },
  {
    // The token of a lock on the moved file is required.
    request: 'MOVE /dav/saving/~WRD0001.tmp',
    headers: { destination: '{dav}/saving/plan2.docx', overwrite: 'F' },
    answer: status(423),
  },
  { request: 'UNLOCK /dav/saving/~WRD0001.tmp', headers: { 'lock-token': '{temporary}' }, answer: status(204) },
  {
    request: `MOVE ${saved}`,
    headers: { destination: '{dav}/saving/~WRL0002.tmp', overwrite: 'F' },
    answer: status(201),
  },
  {
    request: 'MOVE /dav/saving/~WRD0001.tmp',
    headers: { destination: '{dav}/saving/plan.docx', overwrite: 'F' },
    answer: status(201),
  },
  { request: 'DELETE /dav/saving/~WRL0002.tmp', answer: status(204) },
  { request: 'DELETE /dav/saving/~%24plan.docx', answer: status(204) },
  { request: `GET ${saved}`, answer: { status: 200, body: 'new' } },
]

/** A locked target can be replaced with its lock token, and remains locked. */
const overLocked: readonly Step[] = [
  {
    request: `LOCK ${saved}`,
    headers: { ...xml, ...depth0, timeout: 'Second-3600' },
    body: lockinfo('Anna Example'),
    answer: status(200),
    keep: { target: 'lock-token' },
  },
  { request: 'PUT /dav/saving/next.tmp', body: 'newer', answer: status(201) },
  {
    request: 'MOVE /dav/saving/next.tmp',
    headers: { destination: '{dav}/saving/plan.docx', overwrite: 'T' },
    answer: status(423),
  },
  { request: `GET ${saved}`, answer: { status: 200, body: 'new' } },
  {
    request: 'MOVE /dav/saving/next.tmp',
    headers: { destination: '{dav}/saving/plan.docx', overwrite: 'T', if: '<{dav}/saving/plan.docx> ({target})' },
    answer: status(204),
  },
  { request: `GET ${saved}`, answer: { status: 200, body: 'newer' } },
]

export const saveByRename: Trace = {
  client: 'Microsoft Office on a mounted drive',
  userAgent: 'Microsoft-WebDAV-MiniRedir/10.0.19045',
  folder: 'saving',
  steps: [...byRename, ...overLocked],
}
