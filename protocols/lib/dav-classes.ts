/** Headers that advertise WebDAV: compliance classes (RFC 4918 §18), and MS-Author-Via for Windows clients. */
export const davClasses = { dav: '1, 2, 3', 'ms-author-via': 'DAV' } as const
