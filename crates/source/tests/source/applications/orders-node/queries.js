'use strict';

const CUSTOMER = 'customer';

module.exports = {
  creditOf: `SELECT credit FROM ${CUSTOMER} WHERE id = $1`,
};
