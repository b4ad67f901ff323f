/** How a server says that it speaks WebDAV (RFC 4918 §18), and to Windows that files are to be edited by it. */
export const davClasses = { dav: '1, 2, 3', 'ms-author-via': 'DAV' } as const
