// The colours of the layers: hues in the order of the chain, of one lightness in each theme.

export const hueOf = (order, count) => (200 + (330 * (order - 1)) / Math.max(1, count)) % 360;

/** A colour for the style of an element, which follows the theme. */
export const layerColour = (order, count) => `light-dark(oklch(0.56 0.115 ${hueOf(order, count)}), oklch(0.76 0.115 ${hueOf(order, count)}))`;
