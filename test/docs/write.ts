/** Writes the pages of docs/ that are generated from the source: `npm run docs`. */
import { writeFile } from 'node:fs/promises'
import { settingsPage, settingsPagePath } from './settings-page.js'

await writeFile(settingsPagePath, await settingsPage())
