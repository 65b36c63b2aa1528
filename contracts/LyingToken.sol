// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// Says that tokens moved where none did: its logs look like USDC's in everything but the address they come from.
contract LyingToken {
    event Transfer(address indexed from, address indexed to, uint256 value);

    function pretend(address from, address to, uint256 value) external {
        emit Transfer(from, to, value);
    }
}
