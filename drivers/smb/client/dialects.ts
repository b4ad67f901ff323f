/** Dialect revisions of the protocol (MS-SMB2 §2.2.3). */
export const dialects = { smb210: 0x0210, smb300: 0x0300, smb302: 0x0302, smb311: 0x0311 } as const

export type Dialect = (typeof dialects)[keyof typeof dialects]

export const allDialects: readonly Dialect[] = Object.values(dialects)
