/** The whole suite, in the order of the draft. */
import { attributesSection } from './attributes.js'
import type { Section } from './check.js'
import { copying, extensionsSection } from './extensions.js'
import { foldersSection } from './folders.js'
import { handlesSection } from './handles.js'
import { symlinksSection } from './symlinks.js'
import { malformed } from './malformed.js'
import { namesSection, renaming } from './names.js'
import { opening } from './opening.js'
import { reading, writing } from './reading-writing.js'
import { rightsSection } from './rights.js'
import { starting } from './starting.js'

export const sections: readonly Section[] = [
  starting,
  opening,
  reading,
  writing,
  handlesSection,
  namesSection,
  renaming,
  foldersSection,
  attributesSection,
  symlinksSection,
  extensionsSection,
  copying,
  rightsSection,
  malformed,
]
