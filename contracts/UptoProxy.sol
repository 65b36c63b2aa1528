// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {SignaturePermits} from "./SignaturePermits.sol";

/// Stands in for the contract that settles x402 payments of scheme `upto` on a chain of one's own: the payer signs a
/// maximum, a recipient and a facilitator, and only that account may take at most that, once, for that recipient.
/// It has no constructor, so that its code can be placed at the address that official clients sign.
contract UptoProxy {
    struct Witness {
        address to;
        address facilitator;
        uint256 validAfter;
    }

    error UnauthorizedFacilitator();
    error AmountExceedsPermitted();
    error InvalidDestination();
    error PaymentTooEarly();
    error InvalidOwner();
    error InvalidAmount();

    event Settled();

    SignaturePermits public constant PERMIT2 = SignaturePermits(0x000000000022D473030F116dDEE9F6B43aC78BA3);
    string public constant WITNESS_TYPE_STRING =
        "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,address facilitator,uint256 validAfter)";
    bytes32 public constant WITNESS_TYPEHASH = keccak256("Witness(address to,address facilitator,uint256 validAfter)");

    function settle(
        SignaturePermits.PermitTransferFrom calldata permit,
        uint256 amount,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external {
        if (amount > permit.permitted.amount) revert AmountExceedsPermitted();
        if (msg.sender != witness.facilitator) revert UnauthorizedFacilitator();
        if (amount == 0) revert InvalidAmount();
        if (owner == address(0)) revert InvalidOwner();
        if (witness.to == address(0)) revert InvalidDestination();
        if (block.timestamp < witness.validAfter) revert PaymentTooEarly();
        PERMIT2.permitWitnessTransferFrom(
            permit,
            SignaturePermits.SignatureTransferDetails(witness.to, amount),
            owner,
            keccak256(abi.encode(WITNESS_TYPEHASH, witness.to, witness.facilitator, witness.validAfter)),
            WITNESS_TYPE_STRING,
            signature
        );
        emit Settled();
    }
}
