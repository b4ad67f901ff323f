/** What principals may do with a path: the rights that grants give, and the modes of shares. */

/**
 * What a grant can allow or deny. `see`: names, sizes, times, properties and locks. `read`: content, and what is made
 * of it, such as thumbnails, hashes and URLs. `write`: to create, replace, lock and refresh, and to set times and
 * properties.
 */
export const rights = ['see', 'read', 'write', 'rename', 'move', 'copy', 'remove', 'share'] as const
export type Right = (typeof rights)[number]

/** The rights to change what is there. Each is a permission and an action too. */
export const changingRights = ['write', 'rename', 'move', 'copy', 'remove'] as const satisfies readonly Right[]
export type ChangingRight = (typeof changingRights)[number]

/** The rights that a listing tells of. Each is an action too. */
export const listedRights = [...changingRights, 'share'] as const satisfies readonly Right[]
export type ListedRight = (typeof listedRights)[number]

/**
 * What visitors may do with a share. `read`: list and download. `upload`: add new files to a folder that they do not
 * see into. `both`: read, add and replace files, and make folders.
 */
export const shareModes = ['read', 'upload', 'both'] as const
export type ShareMode = (typeof shareModes)[number]
